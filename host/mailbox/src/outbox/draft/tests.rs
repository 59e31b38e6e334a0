use mail_parser::MimeHeaders as _;
use proptest::prelude::*;

use super::*;
use crate::outbox::attached_file::Source;
use crate::outbox::fuzzing::sender;

fn recipient(name: &str, address: &str) -> Recipient {
    Recipient::new(name.into(), address).unwrap()
}

fn draft() -> Draft {
    Draft {
        from: sender(),
        from_name: String::new(),
        to: vec![recipient("", "bo@example.net")],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: "s".into(),
        text: None,
        html: None,
        in_reply_to: None,
        references: Vec::new(),
        headers: Vec::new(),
        files: Vec::new(),
        original: None,
    }
}

fn file(filename: &str, content_type: &str, content: &[u8]) -> File {
    File {
        source: Source::Bytes(Bytes::copy_from_slice(content)),
        filename: Some(filename.into()),
        content_type: Some(content_type.into()),
        content_id: None,
        inline: false,
    }
}

fn attached(draft: &Draft) -> Vec<AttachedFile> {
    draft
        .files
        .iter()
        .map(crate::outbox::fuzzing::attached)
        .collect()
}

fn write(draft: &Draft) -> Bytes {
    draft.envelope().unwrap();
    draft
        .write(
            &attached(draft),
            "<id@example.org>",
            Timestamp::from_millis(1_795_161_600_000),
        )
        .unwrap()
}

fn headers(message: &[u8]) -> String {
    let end = memchr::memmem::find(message, b"\r\n\r\n").unwrap();
    String::from_utf8(message[..end].to_vec()).unwrap()
}

#[test]
fn a_message_has_the_standard_headers_and_no_bcc() {
    let message = write(&Draft {
        cc: vec![recipient("Müller, Jürgen", "j@bücher.example")],
        bcc: vec![recipient("", "secret@example.com")],
        text: Some("Hi\n.\nBye".into()),
        in_reply_to: Some("<1@x>".into()),
        references: vec!["<0@x>".into(), "<1@x>".into()],
        ..draft()
    });
    let headers = headers(&message);
    for line in [
        "Date: Fri, 20 Nov 2026 08:00:00 +0000",
        "From: <ada@example.org>",
        "To: <bo@example.net>",
        "Subject: s",
        "Message-ID: <id@example.org>",
        "In-Reply-To: <1@x>",
        "References: <0@x> <1@x>",
        "MIME-Version: 1.0",
    ] {
        assert!(headers.lines().any(|l| l == line), "{line}\n{headers}");
    }
    assert!(headers.contains("<j@xn--bcher-kva.example>"), "{headers}");
    assert!(!headers.to_lowercase().contains("secret"), "{headers}");
    assert!(message.ends_with(b"\r\n"));
}

#[test]
fn no_header_line_exceeds_the_maximum_length() {
    let id = format!("<{}@x>", "i".repeat(981));
    let message = write(&Draft {
        in_reply_to: Some(id.clone()),
        references: vec![id.clone(), id.clone()],
        ..draft()
    });
    let headers = headers(&message);
    assert_eq!(headers.matches(&id).count(), 3);
    for line in headers.lines() {
        assert!(line.len() <= 998, "{} bytes", line.len());
    }
}

#[test]
fn a_text_with_control_characters_is_encoded() {
    for text in [
        "a\0b",
        "a\rb",
        "x\r",
        "a=\u{1}\u{7f}",
        &"\u{8}".repeat(1000),
    ] {
        let message = write(&Draft {
            text: Some(text.into()),
            html: Some(text.into()),
            ..draft()
        });
        assert!(
            message
                .iter()
                .all(|byte| !byte.is_ascii_control() || b"\t\r\n".contains(byte))
        );
        let read = mail_parser::MessageParser::default()
            .parse(&*message)
            .unwrap();
        assert_eq!(read.body_text(0).unwrap(), text);
        assert_eq!(read.body_html(0).unwrap(), text);
    }
}

#[test]
fn a_name_that_looks_like_an_encoded_word_arrives_unchanged() {
    let long = "=?utf-8?Q?a?= ".repeat(20) + "x";
    let names = [
        "=?utf-8?Q?a?=",
        "6?Q?a1= =?u;f-4?Q?a?= >?=Q;f-4?Q?a?= >?=Qu",
        "M\u{fc}ller =?utf-8?B?YQ==?=",
        "\"=?utf-8?Q?a?=\" \\",
        "a=?b",
        &long,
    ];
    for name in names {
        for to in [
            vec![recipient(name, "bo@example.net")],
            vec![
                recipient("", "x@example.com"),
                recipient(name, "bo@example.net"),
            ],
            vec![
                recipient(name, "bo@example.net"),
                recipient("J\u{fc}rgen, M.", "j@example.com"),
            ],
        ] {
            let cc = to.clone();
            let message = write(&Draft {
                to: to.clone(),
                cc,
                ..draft()
            });
            for line in headers(&message).lines() {
                assert!(line.len() <= 78, "{line}");
            }
            let parsed = mail_parser::MessageParser::new()
                .parse(&message[..])
                .unwrap();
            for field in [parsed.to().unwrap(), parsed.cc().unwrap()] {
                let read: Vec<Recipient> = field
                    .iter()
                    .map(|one| recipient(one.name().unwrap_or_default(), one.address().unwrap()))
                    .collect();
                assert_eq!(read, to);
            }
        }
        crate::outbox::fuzzing::draft(name, "s", "f", "t", b"c");
    }
}

#[test]
fn each_recipient_is_in_the_envelope_once() {
    let draft = Draft {
        cc: vec![recipient("Bo", "bo@EXAMPLE.net")],
        bcc: vec![recipient("", "x@example.com")],
        ..draft()
    };
    let envelope = draft.envelope().unwrap();
    let to: Vec<String> = envelope.to.iter().map(ToString::to_string).collect();
    assert_eq!(to, ["bo@example.net", "x@example.com"]);
}

#[test]
fn invalid_values_are_rejected() {
    for (name, address) in [
        ("a\nBcc: x", "b@c.example"),
        ("", "b@c.example>\r\nRCPT TO:<x@y.example"),
    ] {
        let rejected = Recipient::new(name.into(), address);
        assert!(matches!(rejected, Err(Error::Invalid(_))), "{rejected:?}");
    }
    let is_rejected = |draft: &Draft| matches!(draft.envelope(), Err(Error::Invalid(_)));
    let with = |change: fn(&mut Draft)| {
        let mut draft = draft();
        change(&mut draft);
        draft
    };
    assert!(!is_rejected(&draft()));
    for change in [
        (|d| d.to.clear()) as fn(&mut Draft),
        |d| d.subject = "a\r\nBcc: x@y.example".into(),
        |d| d.in_reply_to = Some("<a>\r\nX: y".into()),
        |d| d.in_reply_to = Some(format!("<{}@x>", "i".repeat(982))),
        |d| d.references = vec!["a@b".into()],
        |d| d.references = vec!["<a b@c>".into()],
        |d| d.files.push(file("a\nb", "text/plain", b"")),
        |d| d.files.push(file("", "text/plain", b"")),
        |d| d.files.push(file("a", "text/plain\r\nX: y", b"")),
        |d| d.files.push(file("a", "text/plain; a=b", b"")),
        |d| d.from_name = "a\r\nBcc: x@y.example".into(),
        |d| d.headers = vec![field("X-A", "a\r\nBcc: x@y.example")],
        |d| d.headers = vec![field("X-A: b\r\nBcc", "x@y.example")],
        |d| d.headers = vec![field("Received", "a")],
        |d| d.headers = vec![field("X-Spam-Status", "No")],
        |d| d.headers = vec![field("List-Id", "a"), field("LIST-ID", "b")],
        |d| d.headers = vec![field("X-A", "a"); 51],
        |d| {
            let id = Some("<a>".into());
            d.files.push(File {
                content_id: id,
                ..file("a", "text/plain", b"")
            });
        },
        |d| {
            let file = File {
                content_id: Some("a".into()),
                ..file("a", "text/plain", b"")
            };
            d.files = vec![file.clone(), file];
        },
    ] {
        let draft = with(change);
        assert!(is_rejected(&draft), "{draft:?}");
    }
}

#[test]
fn a_message_over_25_mb_is_rejected() {
    let written_size = |size: usize| {
        let draft = Draft {
            files: vec![file("a", "application/x", &vec![b'x'; size])],
            ..draft()
        };
        draft
            .write(&attached(&draft), "<a@b>", Timestamp::from_millis(0))
            .map(|m| m.len())
    };
    // Base64 needs four letters for three bytes, and a line break of two bytes for every 76
    // letters.
    let max = (MAX_MESSAGE - 1000) / 78 * 57;
    assert!(written_size(max).unwrap() <= MAX_MESSAGE);
    assert!(matches!(written_size(max + 1200), Err(Error::TooLarge)));
    assert!(matches!(written_size(MAX_MESSAGE), Err(Error::TooLarge)));
}

#[test]
fn an_attached_message_is_unencoded_or_an_octet_stream() {
    let with_attached = |content: &[u8]| {
        let files = vec![file("a.eml", "message/rfc822", content)];
        String::from_utf8_lossy(&write(&Draft { files, ..draft() })).into_owned()
    };
    let whole = with_attached(b"Subject: a\r\n\r\nb\xc3\xa9\r\n");
    assert!(
        whole.contains("Content-Type: message/rfc822\r\n"),
        "{whole}"
    );
    assert!(
        whole.contains("Content-Transfer-Encoding: 8bit\r\n\r\nSubject: a\r\n"),
        "{whole}"
    );
    // RFC 2045, section 6.4: a multipart has the encoding of its parts.
    let encoding = "Content-Transfer-Encoding: 8bit";
    assert!(headers(whole.as_bytes()).contains(encoding), "{whole}");
    let ascii = with_attached(b"Subject: a\r\n\r\nb\r\n");
    assert!(!headers(ascii.as_bytes()).contains("Encoding"), "{ascii}");
    for invalid in [&b"Subject: a\n\nb"[..], b"a\rb", b"\0", &[b'x'; 2000]] {
        let bytes = with_attached(invalid);
        assert!(
            bytes.contains("Content-Type: application/octet-stream\r\n"),
            "{bytes}"
        );
    }
}

fn field(name: &str, value: &str) -> HeaderField {
    HeaderField {
        name: name.into(),
        value: value.into(),
    }
}

/// Returns the decoded values of the fields with this name.
fn field_texts(message: &[u8], name: &str) -> Vec<String> {
    let parsed = mail_parser::MessageParser::new().parse(message).unwrap();
    let fields = parsed.headers_raw().filter(|(found, _)| *found == name);
    // mail-parser does not decode fields without a known name.
    let as_subject = |(_, value): (&str, &str)| {
        let subject = format!("Subject:{value}\r\n\r\n");
        let parsed = mail_parser::MessageParser::new().parse(&*subject);
        parsed.unwrap().subject().unwrap().to_owned()
    };
    fields.map(as_subject).collect()
}

#[test]
fn a_message_has_the_name_of_the_sender_and_additional_fields() {
    let message = write(&Draft {
        from_name: "M\u{fc}ller, Ada".into(),
        reply_to: vec![
            recipient("Team", "team@b\u{fc}cher.example"),
            recipient("", "b@c.example"),
        ],
        headers: vec![
            field("X-Ticket", "7"),
            field("X-Ticket", "M\u{fc}ller  J\u{f6}rg, =?utf-8?Q?a?= end"),
            field("List-Id", "B\u{fc}cher <list.example.org>"),
            field("List-Unsubscribe", "<https://a.example/?b=?c>"),
            field("Precedence", "bulk"),
        ],
        ..draft()
    });
    let parsed = mail_parser::MessageParser::new()
        .parse(&message[..])
        .unwrap();
    let from = parsed.from().unwrap().first().unwrap();
    assert_eq!(
        (from.name(), from.address()),
        (Some("M\u{fc}ller, Ada"), Some("ada@example.org"))
    );
    let headers = headers(&message);
    for line in [
        "Reply-To: \"Team\" <team@xn--bcher-kva.example>, <b@c.example>",
        "X-Ticket: 7",
        "List-Id: =?utf-8?B?QsO8Y2hlcg==?= <list.example.org>",
        "List-Unsubscribe: <https://a.example/?b=?c>",
        "Precedence: bulk",
    ] {
        assert!(headers.lines().any(|l| l == line), "{line}\n{headers}");
    }
    assert!(headers.is_ascii());
    let read = latchmail_mime::fuzzing::read(&message, true);
    assert_eq!(read.to.len(), 1);
    let tickets = ["7", "M\u{fc}ller  J\u{f6}rg, =?utf-8?Q?a?= end"];
    assert_eq!(field_texts(&message, "X-Ticket"), tickets);
}

#[test]
fn long_additional_fields_are_folded() {
    for value in [
        "x".repeat(900),
        "word ".repeat(179) + "end",
        "\u{65e5}".repeat(900),
    ] {
        let headers = vec![field(&format!("X-{}", "a".repeat(68)), &value)];
        let message = write(&Draft { headers, ..draft() });
        for line in crate::outbox::draft::tests::headers(&message).lines() {
            assert!(line.len() <= 998, "{} bytes", line.len());
        }
        let name = format!("X-{}", "a".repeat(68));
        assert_eq!(field_texts(&message, &name), [value]);
    }
}

/// Returns a message with HTML and a picture, and optionally plain text and an attached file.
fn with_picture(text: Option<&str>, other: Option<File>) -> Draft {
    let picture = File {
        content_id: Some("logo@example.org".into()),
        inline: true,
        ..file("logo.png", "image/png", b"png")
    };
    Draft {
        text: text.map(Into::into),
        html: Some("<img src=\"cid:logo@example.org\">".into()),
        files: other.into_iter().chain([picture]).collect(),
        ..draft()
    }
}

#[test]
fn inline_files_are_related_to_the_html() {
    let types = |draft: &Draft| {
        let message = String::from_utf8(write(draft).to_vec()).unwrap();
        let types = message
            .lines()
            .filter_map(|line| line.strip_prefix("Content-Type: "));
        let types = types.map(|line| line.split(';').next().unwrap_or_default().to_owned());
        (types.collect::<Vec<_>>().join(" "), message)
    };
    let (found, message) = types(&with_picture(Some("t"), Some(file("a", "text/csv", b"a"))));
    let expected = "multipart/mixed multipart/alternative text/plain multipart/related text/html \
        image/png text/csv";
    assert_eq!(found, expected);
    assert!(message.contains("type=\"text/html\""), "{message}");
    assert!(
        message.contains("Content-ID: <logo@example.org>\r\n"),
        "{message}"
    );
    assert!(
        message.contains("Content-Disposition: inline; filename=\"logo.png\"\r\n"),
        "{message}"
    );
    let (found, _) = types(&with_picture(None, None));
    assert_eq!(found, "multipart/related text/html image/png");
    let without_html = Draft {
        html: None,
        ..with_picture(Some("t"), None)
    };
    assert_eq!(
        types(&without_html).0,
        "multipart/mixed text/plain image/png"
    );
    let parsed = with_picture(Some("t"), None);
    let message = write(&parsed);
    let parsed = mail_parser::MessageParser::new()
        .parse(&message[..])
        .unwrap();
    assert_eq!(parsed.attachment(0).unwrap().contents(), b"png");
}

#[test]
fn a_multipart_with_an_8bit_message_is_8bit() {
    let attached = File {
        inline: true,
        content_id: Some("m".into()),
        ..file(
            "a.eml",
            "message/rfc822",
            b"Subject: a\r\n\r\nb\xc3\xa9\r\n",
        )
    };
    let message = write(&Draft {
        html: Some("h".into()),
        text: Some("t".into()),
        files: vec![attached, file("a", "text/csv", b"a")],
        ..draft()
    });
    let message = String::from_utf8_lossy(&message);
    // The outer multipart, the alternative, the related multipart and the message.
    assert_eq!(
        message
            .matches("Content-Transfer-Encoding: 8bit\r\n")
            .count(),
        4,
        "{message}"
    );
}

#[test]
fn names_of_all_scripts_arrive_unchanged() {
    for name in [
        "R\u{e9}sum\u{e9} d'\u{e9}t\u{e9}.pdf",
        "\u{41e}\u{442}\u{447}\u{451}\u{442}.pdf",
        "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{8cc7}\u{6599}.pdf",
        "\u{62a}\u{642}\u{631}\u{64a}\u{631}.pdf",
        "\u{930}\u{93f}\u{92a}\u{94b}\u{930}\u{94d}\u{91f}.pdf",
        "\u{5d3}\u{5d5}\u{5d7}.pdf",
    ] {
        let message = write(&Draft {
            from_name: name.into(),
            files: vec![file(name, "application/pdf", b"x")],
            ..draft()
        });
        assert!(message.is_ascii());
        let parsed = mail_parser::MessageParser::new()
            .parse(&message[..])
            .unwrap();
        assert_eq!(parsed.from().unwrap().first().unwrap().name(), Some(name));
        assert_eq!(parsed.attachment(0).unwrap().attachment_name(), Some(name));
        let read = latchmail_mime::fuzzing::read(&message, true);
        assert_eq!(read.files[0].0, name);
    }
}

#[test]
fn different_messages_have_different_fingerprints() {
    let with_cc = Draft {
        cc: vec![recipient("", "bo@example.net")],
        ..draft()
    };
    let with_text = Draft {
        text: Some(String::new()),
        ..draft()
    };
    let with_file = Draft {
        files: vec![file("a", "a/b", b"c")],
        ..draft()
    };
    let with_source = |source| Draft {
        files: vec![File {
            source,
            ..file("a", "a/b", b"")
        }],
        ..draft()
    };
    let number = latchmail_core::message_number::MessageNumber(7);
    let with_name = Draft {
        from_name: "a".into(),
        ..draft()
    };
    let with_reply_to = Draft {
        reply_to: vec![recipient("", "bo@example.net")],
        ..draft()
    };
    let with_field = Draft {
        headers: vec![field("X-A", "b")],
        ..draft()
    };
    let with_inline = Draft {
        files: vec![File {
            inline: true,
            ..file("a", "a/b", b"c")
        }],
        ..draft()
    };
    let all = [
        draft(),
        with_cc,
        with_text,
        with_file,
        with_name,
        with_reply_to,
        with_field,
        with_inline,
        with_source(Source::Upload("7".into())),
        with_source(Source::Message(number)),
        with_source(Source::Part {
            message: number,
            index: 0,
        }),
        with_source(Source::Part {
            message: number,
            index: 1,
        }),
    ];
    let all = all.map(|draft| draft.fingerprint());
    assert_eq!(all[0], draft().fingerprint());
    for (n, one) in all.iter().enumerate() {
        assert!(!all[..n].contains(one));
    }
}

proptest! {
    #[test]
    fn a_written_message_can_be_parsed_and_has_no_long_lines(
        subject in "(=\\?utf-8\\?Q\\?a\\?=)?\\PC{0,200}",
        name in "\\PC{0,60}",
        filename in "(=\\?utf-8\\?Q\\?a\\?=)?\\PC{1,120}",
        text in any::<String>(),
        content: Vec<u8>,
    ) {
        let draft = Draft {
            to: vec![recipient(&name, "bo@example.net")],
            subject: subject.clone(),
            text: Some(text),
            files: vec![file(&filename, "application/x-any", &content)],
            ..draft()
        };
        let message = write(&draft);
        for line in message.split(|b| *b == b'\n') {
            prop_assert!(line.len() <= 999);
            prop_assert!(line.is_empty() || line.ends_with(b"\r"));
        }
        let parsed = mail_parser::MessageParser::new().parse(&message[..]).unwrap();
        prop_assert_eq!(parsed.subject().unwrap_or_default().trim(), subject.trim());
        prop_assert_eq!(parsed.headers_raw().count(), 7);
        let attached = parsed.attachment(0).unwrap();
        prop_assert_eq!(attached.attachment_name().unwrap_or_default().trim(), filename.trim());
        prop_assert_eq!(attached.contents(), &content[..]);
    }
}
