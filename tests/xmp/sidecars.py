"""XMP as photo programs write it: in the forms that they document, with properties of their own around keywords."""

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

DARKTABLE = f"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about=""
    xmlns:exif="http://ns.adobe.com/exif/1.0/"
    xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:xmpMM="http://ns.adobe.com/xap/1.0/mm/"
    xmlns:darktable="http://darktable.sf.net/"
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:lr="http://ns.adobe.com/lightroom/1.0/"
   exif:DateTimeOriginal="2019:07:14 18:22:01.000"
   xmp:Rating="3"
   xmpMM:DerivedFrom="DSC_0042.JPG"
   darktable:xmp_version="5"
   darktable:raw_params="0"
   darktable:history_end="2">
   <darktable:history>
    <rdf:Seq>
     <rdf:li
      darktable:num="0"
      darktable:operation="exposure"
      darktable:enabled="1"
      darktable:params="gz02eJxjYGBgYAJiIJYAAAB7AAs="/>
     <rdf:li
      darktable:num="1"
      darktable:operation="colorin"/>
    </rdf:Seq>
   </darktable:history>
   <dc:subject>
    <rdf:Seq>
     <rdf:li>Animals</rdf:li>
     <rdf:li>darktable</rdf:li>
     <rdf:li>Horse</rdf:li>
    </rdf:Seq>
   </dc:subject>
   <lr:hierarchicalSubject>
    <rdf:Seq>
     <rdf:li>Animals|Horse</rdf:li>
     <rdf:li>darktable|format|jpg</rdf:li>
    </rdf:Seq>
   </lr:hierarchicalSubject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""

DIGIKAM = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about=""
    xmlns:digiKam="http://www.digikam.org/ns/1.0/"
    xmlns:MicrosoftPhoto="http://ns.microsoft.com/photo/1.0/"
    xmlns:lr="http://ns.adobe.com/lightroom/1.0/"
    xmlns:mediapro="http://ns.iview-multimedia.com/mediapro/1.0/"
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    digiKam:PickLabel="0"
    digiKam:ColorLabel="0"
    xmp:Rating="4">
   <digiKam:TagsList>
    <rdf:Seq>
     <rdf:li>Places/Meer &amp; Küste</rdf:li>
     <rdf:li>Boat</rdf:li>
    </rdf:Seq>
   </digiKam:TagsList>
   <MicrosoftPhoto:LastKeywordXMP>
    <rdf:Bag>
     <rdf:li>Places/Meer &amp; Küste</rdf:li>
    </rdf:Bag>
   </MicrosoftPhoto:LastKeywordXMP>
   <lr:hierarchicalSubject>
    <rdf:Bag>
     <rdf:li>Places|Meer &amp; Küste</rdf:li>
     <rdf:li>Boat</rdf:li>
    </rdf:Bag>
   </lr:hierarchicalSubject>
   <dc:subject>
    <rdf:Bag>
     <rdf:li>Meer &amp; Küste</rdf:li>
     <rdf:li>Boat</rdf:li>
    </rdf:Bag>
   </dc:subject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>"""

LIGHTROOM = f"""<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Adobe XMP Core 7.0-c000 1.000000   ">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about=""
    xmlns:tiff="http://ns.adobe.com/tiff/1.0/"
    xmlns:crs="http://ns.adobe.com/camera-raw-settings/1.0/"
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:lr="http://ns.adobe.com/lightroom/1.0/"
   tiff:Make="NIKON CORPORATION"
   crs:ToneCurveName2012='Linear'
   crs:HasSettings="True">
   <dc:subject>
    <rdf:Bag>
     <rdf:li>Holiday</rdf:li>
    </rdf:Bag>
   </dc:subject>
   <crs:ToneCurvePV2012>
    <rdf:Seq>
     <rdf:li>0, 0</rdf:li>
     <rdf:li>255, 255</rdf:li>
    </rdf:Seq>
   </crs:ToneCurvePV2012>
   <crs:Look>
    <rdf:Description
     crs:Name="Adobe Color">
    <crs:Parameters>
     <rdf:Description crs:Version="15.0"/>
    </crs:Parameters>
    </rdf:Description>
   </crs:Look>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>"""

EXIFTOOL = f"""<?xpacket begin='\ufeff' id='W5M0MpCehiHzreSzNTczkc9d'?>
<x:xmpmeta xmlns:x='adobe:ns:meta/' x:xmptk='Image::ExifTool 12.57'>
<rdf:RDF xmlns:rdf='{RDF}'>

 <rdf:Description rdf:about='uuid:0f'
  xmlns:dc='http://purl.org/dc/elements/1.1/'>
  <dc:subject>
   <rdf:Bag>
    <rdf:li>sea</rdf:li>
   </rdf:Bag>
  </dc:subject>
 </rdf:Description>

 <rdf:Description rdf:about='uuid:0f'
  xmlns:photoshop='http://ns.adobe.com/photoshop/1.0/'>
  <photoshop:City>K\u00f6ln</photoshop:City>
 </rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end='w'?>"""

_HEAD, _TAIL = f'<rdf:RDF xmlns:rdf="{RDF}">', "</rdf:RDF>"
_DC = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
ODD = {
    "nothing in it": f'<x:xmpmeta xmlns:x="adobe:ns:meta/">{_HEAD}{_TAIL}</x:xmpmeta>',
    "an empty RDF tag": f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{RDF}" /></x:xmpmeta>\n',
    "an empty list": f"{_HEAD}\n<rdf:Description {_DC}><dc:subject><rdf:Bag /></dc:subject></rdf:Description>\n{_TAIL}",
    "a list of white space": f"{_HEAD}<rdf:Description {_DC}><dc:subject><rdf:Bag>\n  </rdf:Bag></dc:subject>"
    f"</rdf:Description>{_TAIL}",
    "no line breaks": f"{_HEAD}<rdf:Description {_DC}><dc:subject><rdf:Bag><rdf:li>sea</rdf:li></rdf:Bag></dc:subject>"
    f"</rdf:Description>{_TAIL}",
    "an empty description": f'{_HEAD}<rdf:Description rdf:about="" {_DC} dc:format="image/jpeg"/>{_TAIL}',
    "keywords as an attribute": f'{_HEAD}<rdf:Description {_DC} dc:subject="sea"/>{_TAIL}',
    "keywords as text": f"{_HEAD}<rdf:Description {_DC}><dc:subject>sea</dc:subject></rdf:Description>{_TAIL}",
    "other prefixes": f'<r:RDF xmlns:r="{RDF}">\r\n\t<r:Description xmlns:q="http://purl.org/dc/elements/1.1/">\r\n\t\t'
    "<q:subject>\r\n\t\t\t<r:Bag>\r\n\t\t\t\t<r:li>sea</r:li>\r\n\t\t\t</r:Bag>\r\n\t\t</q:subject>\r\n\t"
    "</r:Description>\r\n</r:RDF>\r\n",
    "no prefix": f'<RDF xmlns="{RDF}"><Description><s:subject xmlns:s="http://purl.org/dc/elements/1.1/"><Bag>'
    "<li>sea</li></Bag></s:subject></Description></RDF>",
    "our prefix for RDF": f'<tagloom:RDF xmlns:tagloom="{RDF}"><tagloom:Description/></tagloom:RDF>',
    "comments and CDATA": f"{_HEAD}<!-- a --><rdf:Description {_DC}><!-- <dc:subject> --><dc:subject><rdf:Bag>"
    "<!-- > --><rdf:li xml:lang='en'><![CDATA[a <b> & c]]></rdf:li><!-- c --></rdf:Bag></dc:subject></rdf:Description>"
    f"<!-- d -->{_TAIL}<!-- e -->",
    "two lists": f"{_HEAD}<rdf:Description {_DC}><dc:subject><rdf:Bag><rdf:li>sea</rdf:li></rdf:Bag></dc:subject>"
    f"</rdf:Description><rdf:Description {_DC}><dc:subject><rdf:Bag><rdf:li>sky</rdf:li></rdf:Bag></dc:subject>"
    f"</rdf:Description>{_TAIL}",
    "a sign in an attribute": f"{_HEAD}<rdf:Description {_DC} dc:title='a > b' dc:source=\"it's /&gt;\">"
    f"<dc:subject><rdf:Seq><rdf:li>sea</rdf:li></rdf:Seq></dc:subject></rdf:Description>{_TAIL}",
}

_LATIN = DIGIKAM.removeprefix('<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n')
DOCUMENTS: dict[str, bytes] = {
    "darktable": DARKTABLE.encode(),
    "digiKam": DIGIKAM.encode(),
    "Lightroom": LIGHTROOM.encode(),
    "exiftool": EXIFTOOL.encode(),
    "Lightroom on Windows": LIGHTROOM.replace("\n", "\r\n").encode("utf-8-sig"),
    "UTF-16": DIGIKAM.encode("utf-16"),
    "UTF-16 without mark": EXIFTOOL.encode("utf-16-be"),
    "UTF-32": DIGIKAM.encode("utf-32"),
    "Latin-1": ('<?xml version="1.0" encoding="ISO-8859-1"?>\n' + _LATIN).encode("iso-8859-1"),
    "padded": DIGIKAM.replace("<?xpacket end", " " * 2000 + "\n<?xpacket end").encode(),
    **{name: text.encode() for name, text in ODD.items()},
}
"""Whole documents by name."""
