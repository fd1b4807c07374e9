"""Writing keywords adds ours and touches nothing else; removing them leaves the bytes that were there before."""

import re

import pytest
from sidecars import DARKTABLE, DIGIKAM, DOCUMENTS, EXIFTOOL, LIGHTROOM

from tagloom.errors import DataError
from tagloom.xmp.document import read_document
from tagloom.xmp.editing import EMPTY, EMPTY_PACKET, Writing, with_review, with_tags, without_tags
from tagloom.xmp.keywords import find_keywords, items_of
from tagloom.xmp.marks import ScoredTag, read_marks
from tagloom.xmp.names import HIERARCHICAL, SUBJECT, TAGS_LIST

every_form = pytest.mark.parametrize("data", DOCUMENTS.values(), ids=DOCUMENTS)


def writing(*paths, **others):
    tags = tuple(ScoredTag(path, 0.9 - 0.1 * number) for number, path in enumerate(paths))
    return Writing(tags, "first", "0123", "2026-05-01T10:00:00Z", **others)


def write(data, *paths, **others):
    return with_tags(data, "a.xmp", writing(*paths, **others))


def keywords(data):
    return find_keywords(read_document(data, "a.xmp"))


def items(data, wanted):
    return items_of(read_document(data, "a.xmp"), wanted)


@every_form
def test_write_and_remove_give_back_every_byte(data):
    written = write(data, "Animals|Dog", "cats & <b>dogs</b>", "東京")
    assert written != data
    assert without_tags(written, "a.xmp") == data


@every_form
def test_what_was_there_is_still_there_in_the_same_order(data):
    """What is left of the result without what was inserted is the document: nothing was moved or rewritten."""
    written = write(data, "Animals|Dog", "sofa")
    rest = iter(written)
    assert all(byte in rest for byte in data.replace(b"/>", b">"))  # an empty tag may have to be opened


@every_form
def test_every_form_takes_our_keywords_and_keeps_those_of_its_owner(data):
    before, after = keywords(data), keywords(write(data, "Animals|Dog", "sofa"))
    assert after.own == before.own
    assert after.ours == ("Animals|Dog", "sofa")


@every_form
def test_writing_again_replaces_what_was_written(data):
    once = write(data, "Animals|Dog", "sofa")
    assert write(once, "Animals|Dog", "sofa") == once
    again = write(once, "sofa", "tree")
    assert keywords(again).ours == ("sofa", "tree")
    assert "Dog" not in items(again, SUBJECT)
    assert write(data, "sofa", "tree") == again


@every_form
def test_writing_nothing_takes_out_what_was_written(data):
    assert write(write(data, "sofa")) == data


def test_keywords_are_written_where_programs_look_for_them():
    for empty in (EMPTY, EMPTY_PACKET):
        written = write(empty, "Animals|Dog", "sofa")
        assert items(written, SUBJECT) == ["Animals", "Dog", "sofa"]
        assert items(written, HIERARCHICAL) == ["Animals|Dog", "sofa"]
        assert items(written, TAGS_LIST) == ["Animals/Dog", "sofa"]


def test_items_are_added_in_the_style_of_the_list():
    written = write(DARKTABLE.encode(), "sofa").decode()
    assert "     <rdf:li>Horse</rdf:li>\n     <rdf:li>sofa</rdf:li>\n    </rdf:Seq>" in written
    windows = write(DOCUMENTS["other prefixes"], "sofa").decode()
    assert "<r:li>sea</r:li>\r\n\t\t\t\t<r:li>sofa</r:li>\r\n" in windows


def test_our_description_names_the_same_resource_as_the_others():
    found = re.findall(r"rdf:about=(\S+)", write(EXIFTOOL.encode(), "sofa").decode())
    assert found == ["'uuid:0f'"] * 3


def test_a_tag_that_the_owner_has_is_neither_written_nor_marked_nor_removed():
    data = DIGIKAM.encode()
    for tag in ("Boat", "boat", "Vehicles|Boat", "Places", "Meer & Küste", "Places|Meer & Küste"):
        assert write(data, tag) == data
    assert keywords(write(data, "Boat", "sofa")).ours == ("sofa",)


def test_a_property_that_is_missing_gets_the_keywords_of_the_others():
    """Immich reads digiKam's list before any other, and would show only ours."""
    written = write(LIGHTROOM.encode(), "sofa")
    assert items(written, TAGS_LIST) == ["Holiday", "sofa"]
    assert keywords(written).own == ("Holiday",)


def test_keywords_inside_the_image_are_repeated_in_a_new_sidecar_only():
    written = write(EMPTY, "sofa", "Sea", in_image=("Places|Sea",))
    assert items(written, SUBJECT) == ["Places", "Sea", "sofa"]
    assert keywords(written).own == ()  # they are the owner's where they come from
    assert keywords(written).ours == ("sofa",)
    assert without_tags(written, "a.xmp") == EMPTY
    assert "Sea" not in items(write(LIGHTROOM.encode(), "sofa", in_image=("Places|Sea",)), SUBJECT)


def test_a_keyword_that_somebody_takes_out_is_not_written_again():
    written = write(LIGHTROOM.encode(), "sofa", "dog")
    edited = re.sub(rb"\s*<rdf:li>dog</rdf:li>", b"", written)  # a photo program changes all lists
    assert keywords(edited).rejected == ("dog",)
    again = write(edited, "dog", "sofa", "tree")
    assert keywords(again).ours == ("sofa", "tree")
    assert keywords(without_tags(again, "a.xmp")).rejected == ("dog",)
    assert keywords(write(without_tags(again, "a.xmp"), "dog")).ours == ()


def test_a_review_confirms_keywords_so_that_they_stay():
    written = write(LIGHTROOM.encode(), "sofa", "Animals|Dog", "cat")
    reviewed = with_review(written, "a.xmp", ["Holiday", "Animals|Dog", "tree"], "2026-06-01")
    found = keywords(reviewed)
    assert found.own == ("Animals|Dog", "Holiday", "tree")
    assert (found.ours, found.rejected, found.reviewed) == ((), ("sofa", "cat"), True)
    assert without_tags(reviewed, "a.xmp") == reviewed
    later = write(reviewed, "sofa", "Animals|Dog", "lamp")
    assert keywords(later).ours == ("lamp",)
    assert without_tags(later, "a.xmp") == reviewed


def test_marks_say_who_wrote_what_and_how_sure_it_was():
    marks = read_marks(read_document(write(EMPTY, "Animals|Dog"), "a.xmp"))
    assert (marks.tagger, marks.settings, marks.date) == ("first", "0123", "2026-05-01T10:00:00Z")
    assert marks.tags == (ScoredTag("Animals|Dog", 0.9),)


def test_names_that_xml_cannot_hold_lose_only_those_characters():
    written = write(EMPTY, "a\x00b\ud800c", "\x07", "tab\tand\nbreak", "]]>", "&amp;")
    assert keywords(written).ours == ("abc", "tab and break", "]]>", "&amp;")
    assert without_tags(written, "a.xmp") == EMPTY


def test_what_an_encoding_lacks_becomes_a_reference():
    data = DOCUMENTS["Latin-1"]
    written = write(data, "東京")
    assert b"&#26481;" in written
    assert keywords(written).ours == ("東京",)


def test_keywords_in_a_form_of_their_own_are_left_alone():
    for name in ("keywords as an attribute", "keywords as text"):
        written = write(DOCUMENTS[name], "sofa")
        assert items(written, SUBJECT) == ["sea"]
        assert items(written, HIERARCHICAL) == ["sea", "sofa"]


def test_our_marks_are_found_wherever_another_program_puts_them():
    """Adobe's library writes simple properties as attributes, and everything into one description."""
    moved = f"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
 <rdf:Description rdf:about="" xmlns:dc="{SUBJECT.uri}" xmlns:tagloom="urn:tagloom:keywords/1.0/" dc:format="image/jpeg"
  tagloom:Tagger="first"
  tagloom:Date="2026-05-01T10:00:00Z">
  <tagloom:Tags><rdf:Bag><rdf:li>0.9000 sofa</rdf:li></rdf:Bag></tagloom:Tags>
  <tagloom:Added><rdf:Bag><rdf:li>dc:subject sofa</rdf:li></rdf:Bag></tagloom:Added>
  <tagloom:Created><rdf:Bag><rdf:li>dc:subject</rdf:li></rdf:Bag></tagloom:Created>
  <dc:subject><rdf:Bag><rdf:li>sofa</rdf:li></rdf:Bag></dc:subject>
 </rdf:Description>
</rdf:RDF>"""
    left = without_tags(moved.encode(), "a.xmp").decode()
    assert "<tagloom:" not in left
    assert "tagloom:Tagger" not in left
    assert "tagloom:Date" not in left
    assert "subject" not in left
    assert 'dc:format="image/jpeg"' in left


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "not well-formed"),
        (b"<a/>", "not XMP"),
        (b"<a>", "not well-formed"),
        (b"\xff\xfe<\x00", "not well-formed"),
        (b'<?xml version="1.0" encoding="zip"?><a/>', "encoding 'zip' is not known"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "document type"),
        (b"<a>" * 200 + b"</a>" * 200, "nested"),
        (EXIFTOOL.encode().replace(b"sea", b"&sea;"), "not well-formed"),
        (EXIFTOOL.encode("utf-8").replace(b"K\xc3\xb6ln", b"K\xf6ln"), "not utf-8"),
        (EXIFTOOL.replace("<rdf:li>sea</rdf:li>", "<rdf:li>a</rdf:li>" * 20_001).encode(), "more than 20,000"),
        (EXIFTOOL.replace("<photoshop:City>", "<photoshop:a/>" * 20_001 + "<photoshop:City>").encode(), "properties"),
        (b" " * (32 * 2**20 + 1), "larger"),
    ],
)
def test_what_is_not_xmp_is_refused_by_name(data, found):
    for work in (lambda: write(data, "sofa"), lambda: without_tags(data, "a.xmp")):
        with pytest.raises(DataError, match=found) as caught:
            work()
        assert str(caught.value).startswith("a.xmp: ")
