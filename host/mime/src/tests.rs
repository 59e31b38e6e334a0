use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::*;

mod corpus;
mod visible;

/// The parsed content of a message.
struct Shown {
    text: Option<String>,
    html: Option<String>,
    attachments: Vec<Attachment>,
    truncated: bool,
}

fn structure(message: &[u8], complete: bool) -> Structure {
    let mut walker = StructureParser::default();
    walker.push(message);
    walker.finish(complete)
}

fn content(message: &[u8], complete: bool) -> Shown {
    let structure = structure(message, complete);
    let slices = texts(&structure).map(|ranges| {
        let slices = ranges.into_iter().map(|range| &message[range]);
        slices.collect::<Vec<_>>()
    });
    let content = super::content(&structure, &slices);
    Shown {
        text: content.text,
        html: content.html,
        attachments: sections(&structure).map(|s| s.attachment).collect(),
        truncated: content.truncated,
    }
}

fn attachment(message: &[u8], complete: bool, index: usize) -> Option<(Attachment, Vec<u8>)> {
    let section = sections(&structure(message, complete)).nth(index)?;
    let bytes = transfer::decoded(&message[section.range], section.encoding);
    Some((section.attachment, bytes))
}

fn read(message: &[u8]) -> Shown {
    content(message, true)
}

fn shown(content: &Shown) -> Vec<(&str, &str, u64)> {
    content
        .attachments
        .iter()
        .map(|a| (a.filename.as_str(), a.content_type.as_str(), a.size))
        .collect()
}

#[test]
fn a_message_without_mime_is_text() {
    let plain = read(b"Subject: x\r\n\r\nHello\r\n");
    assert_eq!(
        (plain.text.as_deref(), plain.html.as_deref()),
        (Some("Hello\r\n"), None)
    );
    assert!(plain.attachments.is_empty() && !plain.truncated);
    let bare = read(b"Subject: x\n\nHello\n");
    assert_eq!(bare.text.as_deref(), Some("Hello\n"));
    assert_eq!(read(b"").text.as_deref(), Some(""));
    assert_eq!(read(b"Subject: no body").text.as_deref(), Some(""));
    assert_eq!(read(b"\r\nno header").text.as_deref(), Some("no header"));
}

#[test]
fn nothing_is_made_of_what_is_not_there() {
    let html = read(b"Content-Type: text/html\r\n\r\n<p>x</p>");
    assert_eq!(
        (html.text.as_deref(), html.html.as_deref()),
        (None, Some("<p>x</p>"))
    );
    let file = read(b"Content-Type: application/pdf\r\n\r\n%PDF");
    assert_eq!((file.text.as_deref(), file.html.as_deref()), (None, None));
    assert_eq!(shown(&file), [("attachment-1.pdf", "application/pdf", 4)]);
    let attached = read(b"Content-Disposition: attachment\r\n\r\ntext");
    assert_eq!(
        (attached.text.as_deref(), shown(&attached)),
        (None, vec![("attachment-1.txt", "text/plain", 4)])
    );
}

#[test]
fn parts_are_counted_in_order_and_a_message_within_is_one() {
    let message = b"Content-Type: multipart/mixed; boundary=a\r\n\r\n\
        --a\r\nContent-Type: multipart/related; boundary=ab\r\n\r\n\
        --ab\r\nContent-Type: text/html\r\n\r\n<img src=cid:1>\r\n\
        --ab\r\nContent-Type: image/png\r\nContent-ID: <1>\r\nContent-Disposition: inline; filename=i.png\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0=\r\n--ab--\r\n\
        --a\r\nContent-Type: message/rfc822\r\n\r\nContent-Type: multipart/mixed; boundary=q\r\n\r\n--q\r\n\r\ninner\r\n--q--\r\n\r\n\
        --a\r\nContent-Type: text/plain; name=notes.txt\r\nContent-Disposition: inline\r\n\r\nnotes\r\n\
        --a\r\nContent-Type: multipart/digest; boundary=d\r\n\r\n--d\r\n\r\nSubject: one\r\n\r\n1\r\n--d--\r\n\
        --a--\r\n";
    let read = read(message);
    assert_eq!(
        (read.text.as_deref(), read.html.as_deref()),
        (None, Some("<img src=cid:1>"))
    );
    assert_eq!(
        shown(&read),
        [
            ("i.png", "image/png", 5),
            ("attachment-2.eml", "message/rfc822", 66),
            ("notes.txt", "text/plain", 5),
            ("attachment-4.eml", "message/rfc822", 17),
        ]
    );
    let third = attachment(message, true, 2).unwrap();
    assert_eq!((third.0.index, &third.1[..]), (2, &b"notes"[..]));
    assert_eq!(attachment(message, true, 4), None);
}

/// Returns a multipart with a part for each of `parts`: a header field and the content.
fn multipart(subtype: &str, boundary: &str, parts: &[(&str, &str)]) -> String {
    let mut message = format!("Content-Type: multipart/{subtype}; boundary={boundary}\r\n\r\n");
    for (header, content) in parts {
        write!(message, "--{boundary}\r\n{header}\r\n\r\n{content}\r\n").unwrap();
    }
    message + &format!("--{boundary}--\r\n")
}

const TEXT: &str = "Content-Type: text/plain";
const HTML: &str = "Content-Type: text/html";
const PICTURE: &str = "Content-Type: image/png; name=a.png\r\nContent-Disposition: inline";
const FILE: &str = "Content-Disposition: attachment; filename=b.pdf";

/// Returns the text, the HTML, the names of the attachments, the new text and the preview.
fn bodies(message: &str) -> (Option<String>, Option<String>, Vec<String>, String, String) {
    let read = read(message.as_bytes());
    let names = read
        .attachments
        .iter()
        .map(|a| a.filename.clone())
        .collect();
    let new_text = new_text(read.text.as_deref(), read.html.as_deref());
    let (header, body) = split(message.as_bytes());
    let preview = preview::Preview::of_body(header, body, true).text;
    (
        read.text,
        read.html,
        names,
        new_text.unwrap_or_default(),
        preview,
    )
}

#[test]
fn blank_parts_before_the_text_are_skipped() {
    for blank in ["", "\r\n", " \u{feff}\r\n\t"] {
        let mixed = [
            (TEXT, blank),
            (PICTURE, "x"),
            (FILE, "y"),
            (TEXT, "the text"),
        ];
        let (text, _, files, new, preview) = bodies(&multipart("mixed", "m", &mixed));
        assert_eq!(text.as_deref(), Some("the text"));
        assert_eq!(files, ["a.png", "b.pdf"]);
        assert_eq!((new.as_str(), preview.as_str()), ("the text", "the text"));

        let mixed = [(HTML, blank), (PICTURE, "x"), (HTML, "<p>the text</p>")];
        let (text, html, files, new, preview) = bodies(&multipart("mixed", "m", &mixed));
        assert_eq!((text, html.as_deref()), (None, Some("<p>the text</p>")));
        assert_eq!(files, ["a.png"]);
        assert_eq!((new.as_str(), preview.as_str()), ("the text", "the text"));

        let mixed = [(TEXT, blank), (PICTURE, "x"), (HTML, "<p>the text</p>")];
        let (_, html, _, new, preview) = bodies(&multipart("mixed", "m", &mixed));
        assert_eq!(html.as_deref(), Some("<p>the text</p>"));
        assert_eq!((new.as_str(), preview.as_str()), ("the text", "the text"));

        // If all parts are blank, the text is the first part.
        let mixed = [(TEXT, blank), (PICTURE, "x"), (TEXT, " ")];
        let (text, _, files, ..) = bodies(&multipart("mixed", "m", &mixed));
        let first = blank.trim_start_matches('\u{feff}');
        assert_eq!(
            (text.as_deref(), files),
            (Some(first), vec!["a.png".to_owned()])
        );
    }
    // HTML without text before a picture.
    let mixed = [
        (HTML, "<html><br></html>"),
        (PICTURE, "x"),
        (HTML, "<p>the text</p>"),
    ];
    let (_, _, _, new, preview) = bodies(&multipart("mixed", "m", &mixed));
    assert_eq!((new.as_str(), preview.as_str()), ("the text", "the text"));
}

#[test]
fn the_text_before_and_after_files_is_one_text() {
    let mixed = [
        (TEXT, "one"),
        (PICTURE, "x"),
        (TEXT, "two\r\n"),
        (FILE, "y"),
        (TEXT, " "),
        (TEXT, "three"),
    ];
    let (text, html, files, new, preview) = bodies(&multipart("mixed", "m", &mixed));
    assert_eq!(
        (text.as_deref(), html),
        (Some("one\r\n\r\ntwo\r\n\r\nthree"), None)
    );
    assert_eq!(files, ["a.png", "b.pdf"]);
    assert_eq!(
        (new.as_str(), preview.as_str()),
        ("one\n\ntwo\n\nthree", "one")
    );

    // Nested multiparts.
    let inner = multipart("mixed", "i", &[(TEXT, "two"), (FILE, "y"), (TEXT, "three")]);
    let (header, content) = inner.split_once("\r\n\r\n").unwrap();
    let mixed = [(TEXT, "one"), (header, content)];
    let (text, _, files, ..) = bodies(&multipart("mixed", "m", &mixed));
    assert_eq!(text.as_deref(), Some("one\r\n\r\ntwo\r\n\r\nthree"));
    assert_eq!(files, ["b.pdf"]);

    // A named text, an attached text and a resource of another part are not part of the text.
    let named = "Content-Type: text/plain; name=notes.txt";
    let attached = "Content-Type: text/plain\r\nContent-Disposition: attachment";
    let mixed = [(TEXT, "one"), (named, "two"), (attached, "three")];
    let (text, _, files, ..) = bodies(&multipart("mixed", "m", &mixed));
    assert_eq!(text.as_deref(), Some("one"));
    assert_eq!(files, ["notes.txt", "attachment-2.txt"]);
    let related = [(TEXT, "one"), (PICTURE, "x"), (TEXT, "two")];
    let (text, _, files, ..) = bodies(&multipart("related", "r", &related));
    assert_eq!(text.as_deref(), Some("one"));
    assert_eq!(files, ["a.png", "attachment-2.txt"]);
}

#[test]
fn a_text_and_its_html_are_alternatives() {
    // Apple Mail writes the HTML around a file as several parts.
    let html = multipart(
        "mixed",
        "i",
        &[(HTML, "<p>one</p>"), (FILE, "y"), (HTML, "<p>two</p>")],
    );
    let (header, content) = html.split_once("\r\n\r\n").unwrap();
    let alternative = [(TEXT, "one two"), (header, content)];
    let (text, html, files, ..) = bodies(&multipart("alternative", "a", &alternative));
    assert_eq!(text.as_deref(), Some("one two"));
    assert_eq!(html.as_deref(), Some("<p>one</p>\r\n\r\n<p>two</p>"));
    assert_eq!(files, ["b.pdf"]);

    let alternatives = [
        (TEXT, "one"),
        (TEXT, "another form of one"),
        (HTML, "<p>one</p>"),
    ];
    let (text, _, files, ..) = bodies(&multipart("alternative", "a", &alternatives));
    assert_eq!(text.as_deref(), Some("one"));
    assert_eq!(files, ["attachment-1.txt"]);

    // A text that the HTML does not contain is an attachment.
    let alternative = multipart("alternative", "a", &[(TEXT, "one"), (HTML, "<p>one</p>")]);
    let (header, content) = alternative.split_once("\r\n\r\n").unwrap();
    let mixed = [
        (header, content),
        (PICTURE, "x"),
        (TEXT, "two"),
        (FILE, "y"),
    ];
    let (text, html, files, ..) = bodies(&multipart("mixed", "m", &mixed));
    assert_eq!(text.as_deref(), Some("one"));
    assert_eq!(html.as_deref(), Some("<p>one</p>"));
    assert_eq!(files, ["a.png", "attachment-2.txt", "b.pdf"]);

    // Two texts with their HTML.
    let mixed = [(header, content), (FILE, "y"), (header, content)];
    let (text, html, files, ..) = bodies(&multipart("mixed", "m", &mixed));
    assert_eq!(text.as_deref(), Some("one\r\n\r\none"));
    assert_eq!(html.as_deref(), Some("<p>one</p>\r\n\r\n<p>one</p>"));
    assert_eq!(files, ["b.pdf"]);
}

#[test]
fn the_parts_of_a_text_are_limited() {
    let long = "x".repeat(bounds::BODY);
    let mixed = [(TEXT, long.as_str()), (PICTURE, "x"), (TEXT, "rest")];
    let message = multipart("mixed", "m", &mixed);
    let cut = read(message.as_bytes());
    assert!(cut.truncated && cut.text.unwrap().len() == bounds::BODY);
    let message = multipart("mixed", "m", &[(TEXT, "x"); 2 * bounds::BODY_PARTS]);
    let read = read(message.as_bytes());
    assert_eq!(read.text.unwrap().matches('x').count(), bounds::BODY_PARTS);
    assert_eq!(read.attachments.len(), bounds::BODY_PARTS);
    let encoded = format!("{TEXT}\r\nContent-Transfer-Encoding: base64");
    let long = "eHh4\r\n".repeat(ENCODED_BODY / 6 / 5);
    let message = multipart("mixed", "m", &[(encoded.as_str(), long.as_str()); 8]);
    let structure = structure(message.as_bytes(), true);
    let [texts, _] = texts(&structure);
    let lengths: usize = texts.iter().map(ExactSizeIterator::len).sum();
    assert!(texts.len() == 8 && lengths <= ENCODED_BODY, "{lengths}");
}

#[test]
fn a_multipart_that_is_broken_still_shows_what_is_there() {
    // Without an end, without a delimiter, without a boundary, and with a boundary that begins like
    // another.
    let open = read(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\ntext\n--b\nContent-Type: image/gif\n\nGIF");
    assert_eq!(
        (open.text.as_deref(), shown(&open)),
        (Some("text"), vec![("attachment-1.gif", "image/gif", 3)])
    );
    let none = read(b"Content-Type: multipart/mixed; boundary=b\r\n\r\nno delimiter");
    assert_eq!(none.text.as_deref(), Some("no delimiter"));
    let unnamed = read(b"Content-Type: multipart/mixed\r\n\r\n--\r\nx");
    assert_eq!(unnamed.text.as_deref(), Some("--\r\nx"));
    let longer = read(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n--bb\r\n-- b\r\nx --b\r\n--b--");
    assert_eq!(longer.text.as_deref(), Some("--bb\r\n-- b\r\nx --b"));
    let padded = read(b"Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b \t\r\n\r\nx\r\n--b-- \r\nepilogue");
    assert_eq!(
        (padded.text.as_deref(), padded.attachments.len()),
        (Some("x"), 0)
    );
}

#[test]
fn text_is_decoded_whatever_it_claims_to_be() {
    let text = |header: &str, body: &[u8]| {
        let mut message = format!("{header}\r\n\r\n").into_bytes();
        message.extend_from_slice(body);
        read(&message).text.unwrap()
    };
    assert_eq!(
        text(
            "Content-Type: text/plain; charset=iso-2022-jp",
            b"\x1b$BF|K\\8l\x1b(B"
        ),
        "日本語"
    );
    assert_eq!(
        text("Content-Type: text/plain; charset=windows-1252", b"\x80"),
        "€"
    );
    assert_eq!(
        text(
            "Content-Type: text/plain; charset=no-such-thing",
            "é".as_bytes()
        ),
        "é"
    );
    assert_eq!(
        text("Content-Type: text/plain; charset=utf-8", b"a\xffb"),
        "a\u{fffd}b"
    );
    assert_eq!(
        text(
            "Content-Transfer-Encoding: base64",
            b"this is not base64, or is it?"
        ),
        text(
            "Content-Transfer-Encoding: base64",
            b"thisisnotbase64orisit"
        )
    );
    assert_eq!(
        text("Content-Transfer-Encoding: x-unheard-of", b"as it is"),
        "as it is"
    );
}

#[test]
fn a_form_of_the_text_is_no_file_whatever_it_is_called() {
    let alternative = |second: &str| {
        let message = format!(
            "Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: multipart/alternative; boundary=a\r\n\r\n\
             --a\r\nContent-Type: text/plain; name=body.txt\r\n\r\nplain\r\n--a\r\n{second}\r\n--a--\r\n\
             --m\r\nContent-Type: text/html; name=page.html\r\n\r\n<p>a file</p>\r\n--m--\r\n"
        );
        let read = read(message.as_bytes());
        let files: Vec<_> = read.attachments.into_iter().map(|a| a.filename).collect();
        (read.text, read.html, files)
    };
    let shown = |text: &str, html: Option<&str>, files: &[&str]| {
        let files: Vec<_> = files.iter().map(ToString::to_string).collect();
        (Some(text.to_owned()), html.map(ToOwned::to_owned), files)
    };
    assert_eq!(
        alternative(
            "Content-Type: text/html; name=body.html\r\nContent-Disposition: inline\r\n\r\n<p>rich</p>"
        ),
        shown("plain", Some("<p>rich</p>"), &["page.html"])
    );
    assert_eq!(
        alternative(
            "Content-Type: multipart/related; boundary=r\r\n\r\n--r\r\nContent-Type: text/html; name=body.html\r\n\r\n<p>rich</p>\r\n\
             --r\r\nContent-Type: text/plain; name=alt.txt\r\n\r\nalt\r\n--r--"
        ),
        shown("plain", Some("<p>rich</p>"), &["alt.txt", "page.html"])
    );
    assert_eq!(
        alternative(
            "Content-Type: text/html\r\nContent-Disposition: attachment; filename=body.html\r\n\r\n<p>rich</p>"
        ),
        shown("plain", None, &["body.html", "page.html"])
    );
}

#[test]
fn what_is_no_text_is_not_answered_as_text() {
    let message = b"\r\na\tb\r\nc\x00\x01\x1b[31m\x7f\xc2\x9b\x0cpage";
    assert_eq!(
        read(message).text.unwrap(),
        "a\tb\r\nc\u{fffd}\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}\npage"
    );
    let full = [b"\r\n".to_vec(), vec![1; bounds::BODY]].concat();
    let full = read(&full);
    assert!(full.truncated && full.text.unwrap().len() <= bounds::BODY);
}

#[test]
fn a_message_that_is_cut_says_so() {
    let whole = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\nContent-Type: image/gif\r\n\r\nGIF\r\n--b--\r\n";
    assert!(!content(whole, true).truncated);
    for length in 0..whole.len() {
        assert!(content(&whole[..length], false).truncated);
    }
    let long = [b"\r\n".to_vec(), "é".repeat(bounds::BODY).into_bytes()].concat();
    let cut = read(&long);
    assert!(cut.truncated);
    assert_eq!(cut.text.unwrap().len(), bounds::BODY);
}

#[test]
fn a_hostile_message_costs_little_and_says_that_it_was_cut() {
    let nested = |n: usize| -> Vec<u8> {
        (0..n)
            .flat_map(|i| {
                format!("Content-Type: multipart/mixed; boundary=b{i}\r\n\r\n--b{i}\r\n")
                    .into_bytes()
            })
            .collect()
    };
    let mut many = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec();
    many.extend(b"--b\r\n\r\n".repeat(200_000));
    let mut nothing = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec();
    nothing.extend(
        b"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n".repeat(100_000),
    );
    let header = [b"X: y\r\n".repeat(500_000), b"\r\ntext".to_vec()].concat();
    for hostile in [nested(50_000), many, nothing, header] {
        let begun = Instant::now();
        let read = content(&hostile, true);
        assert!(read.truncated);
        assert!(read.attachments.len() <= bounds::PARTS);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    // Messages inside a message are not parsed.
    let messages = b"Content-Type: message/rfc822\r\n\r\n".repeat(300_000);
    assert_eq!(read(&messages).attachments.len(), 1);
    // The boundary occurs everywhere.
    let dashes = [
        b"Content-Type: multipart/mixed; boundary=\"-\"\r\n\r\n".to_vec(),
        vec![b'-'; 2_000_000],
    ]
    .concat();
    assert!(read(&dashes).text.is_some());
}

#[test]
fn no_bytes_make_a_message_unreadable() {
    let seeds: [&[u8]; 3] = [
        b"From: =?utf-8?Q?B=C3=B6?= <bo@example.net>, G: a@b, \"x\\\" y\" <c@d>;\r\nTo: a@b (c (d)), <@x,@y:z@q>\r\n\
          Subject: =?utf-8?B?R3LDvMOfZQ==?= =?iso-2022-jp?B?GyRC?=\r\nDate: Fri, 20 Nov 2026 09:00:00 +0100 (CET)\r\n\
          Message-ID: <a@b>\r\nReferences: <a@b>\r\n\t<c@d>\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n",
        b"--b\r\nContent-Type: text/plain; charset*=us-ascii'en'utf-8; name*0*=utf-8''%e2%82; name*1=x\r\n\
          Content-Disposition: attachment; filename*=utf-8''%e2%82%ac; filename=\"=?utf-8?Q?a?=\"\r\n\
          Content-Transfer-Encoding: quoted-printable\r\n\r\na=C3=A9=\r\nb\r\n",
        b"--b\r\nContent-Type: text/html; charset=shift_jis\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+JmFtcDs8IS0tPC9wPg==\r\n--b--\r\n",
    ];
    let whole = seeds.concat();
    let mut state = 1_u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let special = b"\r\n\t \0\"\\<>()[]:;,=?*'%&-_/+@\xff\xc3\xe2";
    for _ in 0..2_000 {
        let mut message = whole.clone();
        for _ in 0..=random(12) {
            let at = random(message.len().max(1));
            if message.is_empty() {
                break;
            }
            match random(4) {
                0 => message[at] = special[random(special.len())],
                1 => message.insert(at, special[random(special.len())]),
                2 => drop(message.drain(at..(at + random(20)).min(message.len()))),
                _ => message.truncate(at.max(1)),
            }
        }
        let (header, body) = split(&message);
        drop(Header::of(header, bounds::FIELD));
        let complete = random(2) == 0;
        let read = content(&message, complete);
        for described in read.attachments {
            let again = attachment(&message, complete, described.index as usize).unwrap();
            assert_eq!(again.1.len() as u64, described.size);
            assert_eq!(again.0, described);
        }
        if let Some((Beginning::Html(html), _)) = beginning(header, body, complete) {
            drop(visible_text(&html));
        }
    }
}

#[test]
fn a_hostile_header_costs_little() {
    for unit in [
        "(",
        "\"",
        "<",
        ",",
        ":",
        ";",
        "a:",
        "=?utf-8?Q?a",
        "=?utf-8?B?",
        "\\",
        "@",
        "\n ",
        "x*0*=",
        ";a=",
        ";a*1=b",
        "<a>",
        "=?utf-8?Q?=41?= ",
    ] {
        for field in [
            "From",
            "Subject",
            "References",
            "Date",
            "Content-Type: a/b; x",
            "Content-Disposition",
        ] {
            let header = format!("{field}: {}\r\n", unit.repeat(bounds::HEADER / unit.len()));
            let begun = Instant::now();
            drop(Header::of(header.as_bytes(), bounds::FIELD));
            content(header.as_bytes(), true);
            assert!(
                begun.elapsed() < Duration::from_secs(2),
                "{field}: {unit:?} took {:?}",
                begun.elapsed()
            );
        }
    }
}
