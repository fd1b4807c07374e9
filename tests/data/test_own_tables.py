"""Tables as people have them: ids without suffix, lists beside 0/1 columns, numbers with a file of names."""

import json

import pytest

from tagloom.data import load_table
from tagloom.data.audit import audit
from tagloom.errors import DataError


def labels_of(table):
    rows = table.targets(slice(None))
    return {
        image: {name for name, mark in zip(table.classes, row, strict=True) if mark}
        for image, row in zip(table.images, rows, strict=True)
    }


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def with_images(folder, *names):
    for name in names:
        write(folder / name, "")


POSTERS = """Id,Genre,Action,Comedy,Drama,N/A
tt0086425,"['Comedy', 'Drama']",0,1,1,0
tt0085549,"['Drama']",0,0,1,0
tt0086465,['Comedy'],0,1,0,0
"""


def test_a_table_of_movie_posters_is_read_as_it_is(tmp_path):
    with_images(tmp_path / "Images", "tt0086425.jpg", "tt0085549.jpg", "tt0086465.jpg")
    table = load_table(write(tmp_path / "train.csv", POSTERS))
    assert table.root == tmp_path / "Images"
    assert labels_of(table) == {
        "tt0086425.jpg": {"Comedy", "Drama"},
        "tt0085549.jpg": {"Drama"},
        "tt0086465.jpg": {"Comedy"},
    }
    assert table.ignored_columns == ("Action", "Comedy", "Drama", "N/A")
    said = "; ".join(audit(table).understood)
    assert "images are in the column 'Id'" in said
    assert "labels are in the column 'Genre'" in said
    assert f"files in {tmp_path / 'Images'}: 'tt0086425' is tt0086425.jpg" in said


def test_a_list_column_of_any_name_is_the_column_of_labels(tmp_path):
    table = load_table(write(tmp_path / "t.csv", POSTERS.replace("Genre", "what it is")))
    assert table.classes == ("Comedy", "Drama")
    assert "its fields are lists, and 4 columns of 0 and 1 repeat it" in "; ".join(table.understood)


def test_lists_and_columns_that_say_different_things_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", "image,words,cat,dog\na.jpg,\"['x']\",1,0\nb.jpg,['y'],0,1\n")
    with pytest.raises(DataError, match=r"'words' holds lists, and 'cat', 'dog' hold 0 and 1.*label_column=NAME"):
        load_table(path)
    assert load_table(path, label_column="words").classes == ("x", "y")


def test_other_text_beside_columns_of_marks_is_still_refused(tmp_path):
    with pytest.raises(DataError, match="column 'title': expected 1, 0, -1 or nothing"):
        load_table(write(tmp_path / "t.csv", "image,title,is_train\na.jpg,Sun,1\nb.jpg,Sea,0\n"))


def test_labels_may_be_json_lists_of_names_or_numbers(tmp_path):
    lines = [("a.jpg", ["dog", 'a "b", c']), ("b.jpg", [])]
    text = "image,labels\n" + "".join(
        f'{image},"{json.dumps(names).replace(chr(34), chr(34) * 2)}"\n' for image, names in lines
    )
    assert labels_of(load_table(write(tmp_path / "t.csv", text))) == {"a.jpg": {"dog", 'a "b", c'}, "b.jpg": set()}
    numbers = write(tmp_path / "n.csv", 'image,labels\na.jpg,"[3, 14]"\nb.jpg,[3]\n')
    assert load_table(numbers).classes == ("14", "3")


ATTRIBUTES = "id,attribute_ids\n1000483014d91860,147 616 813\n1000fe2e667721fe,51\n"
NAMES = "attribute_id,attribute_name\n" + "".join(
    f"{number},{name}\n"
    for number, name in {51: "country::france", 147: "tag::cat", 616: "tag::men", 813: "x, y"}.items()
).replace("x, y", '"x, y"')


def test_numbers_separated_by_spaces_get_their_names_from_the_file_next_to_them(tmp_path):
    with_images(tmp_path / "train", "1000483014d91860.png", "1000fe2e667721fe.png")
    write(tmp_path / "labels.csv", NAMES)
    table = load_table(write(tmp_path / "train.csv", ATTRIBUTES))
    assert labels_of(table) == {
        "1000483014d91860.png": {"tag::cat", "tag::men", "x, y"},
        "1000fe2e667721fe.png": {"country::france"},
    }
    assert table.classes == tuple(sorted(table.classes))
    assert "labels.csv says what they mean" in table.understood[-1]


def test_a_file_of_names_can_be_named_and_must_name_every_number(tmp_path):
    path = write(tmp_path / "t.csv", ATTRIBUTES)
    assert load_table(path, names=str(write(tmp_path / "n" / "x.csv", NAMES))).classes[0] == "country::france"
    lacking = write(tmp_path / "n" / "y.csv", NAMES.replace("616,", "617,"))
    with pytest.raises(DataError, match="has no name for '616'"):
        load_table(path, names=str(lacking))
    with pytest.raises(DataError, match="labels are not numbers"):
        load_table(write(tmp_path / "w.csv", "image,labels\na.jpg,cat\n"), names=str(lacking))


def test_another_table_next_to_it_is_not_taken_for_names(tmp_path):
    write(tmp_path / "labels.csv", "image_id,label\n1,dog\n2,dog\n3,cat\n")
    table = load_table(write(tmp_path / "t.csv", "image,labels\na.jpg,1\nb.jpg,2\n"))
    assert table.classes == ("1", "2")
    assert "does not say what they mean" in table.understood[-1]


def test_numbers_with_spaces_are_one_name_where_they_are_quoted(tmp_path):
    table = load_table(write(tmp_path / "t.csv", 'image,labels\na.jpg,"""1 2"""\nb.jpg,3\n'))
    assert table.classes == ("1 2", "3")


def test_images_are_found_in_the_folder_that_is_named_like_them(tmp_path):
    with_images(tmp_path / "images", "a.jpg")
    path = write(tmp_path / "t.csv", "image,labels\na.jpg,cat\nb.jpg,dog\n")
    assert load_table(path).root == tmp_path / "images"
    with_images(tmp_path, "b.jpg")
    assert load_table(path).root == tmp_path  # where the table says, if anything is there
    assert load_table(path, images=str(tmp_path / "elsewhere")).root == tmp_path / "elsewhere"


def test_ids_in_a_folder_that_was_chosen_get_their_suffixes(tmp_path):
    with_images(tmp_path / "far", "7.JPEG", "8.png", "8.txt")
    table = load_table(write(tmp_path / "t.csv", "id,labels\n7,cat\n8,dog\n9,cat\n"), images=str(tmp_path / "far"))
    assert table.images == ["7.JPEG", "8.png", "9"]
