use super::*;

fn read(header: &[u8]) -> Header {
    Header::of(header, 1000)
}

fn address(name: &str, address: &str) -> Address {
    Address {
        name: name.into(),
        address: address.into(),
    }
}

#[test]
fn fields_are_decoded_and_groups_flattened() {
    let header = read(
        b"From: =?utf-8?Q?J=C3=BCrgen_?= =?utf-8?B?TcO8bGxlcg==?= <j@example.org>\r\n\
          To: Friends: a@example.org, \"B, C\" <bc@example.org>;, d@example.org\r\n\
          Cc: undisclosed-recipients:;\r\n\
          Subject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\n =?utf-8?Q?_aus_=E2=82=AC?=\r\n\
          Date: Fri, 20 Nov 2026 09:00:00 +0100\r\n\
          Message-ID: <1@example.org>\r\n\
          In-Reply-To: <0@example.org> (a comment)\r\n\
          References: <a@example.org>\r\n\t<b@example.org> <c@\r\n example.org>\r\n",
    );
    assert_eq!(header.from, [address("Jürgen Müller", "j@example.org")]);
    assert_eq!(
        header.to,
        [
            address("", "a@example.org"),
            address("B, C", "bc@example.org"),
            address("", "d@example.org")
        ]
    );
    assert_eq!(header.cc, []);
    assert_eq!(header.subject, "Grüße aus €");
    assert_eq!(header.date.unwrap().to_string(), "2026-11-20T08:00:00.000Z");
    assert_eq!(header.message_id, "<1@example.org>");
    assert_eq!(header.in_reply_to.as_deref(), Some("<0@example.org>"));
    assert_eq!(
        header.references,
        ["<a@example.org>", "<b@example.org>", "<c@example.org>"]
    );
}

#[test]
fn fields_between_other_fields_are_decoded() {
    let header = read(
        b"Received: from a\r\n\tby b\r\n\
          Reply-To: Ada\r\n <a@example.org>\r\n\
          X-Reply-To: x@example.org\r\n\
          CC: b@example.org\r\n\
          List-Id: <c.example.org>\r\n",
    );
    assert_eq!(header.reply_to, [address("Ada", "a@example.org")]);
    assert_eq!(header.cc, [address("", "b@example.org")]);
}

#[test]
fn what_is_missing_or_malformed_is_empty_and_never_panics() {
    for header in [
        &b""[..],
        b"\r\n",
        b":",
        b"Subject",
        b"From: \xff\xfe<\xff>\r\nDate: \xff",
        b"Date: Mon, 99 Foo 20266 99:99:99 +9999",
    ] {
        let read = read(header);
        assert_eq!((read.date, read.message_id.as_str()), (None, ""));
    }
    let raw = read(b"Subject: caf\xc3\xa9 \xff\r\nFrom: nobody\r\n");
    assert_eq!(raw.subject, "café \u{fffd}");
    assert_eq!(raw.from, [address("", "nobody")]);
    assert_eq!(
        read(b"Subject: =?utf-8?Q?a=0D=0AX:_b?=\r\n").subject,
        "a  X: b"
    );
}

#[test]
fn a_part_names_its_file_in_every_way_that_is_in_use() {
    let name = |header: &str| Part::of(header.as_bytes(), false).filename.unwrap();
    assert_eq!(
        name("Content-Disposition: attachment; filename*=utf-8''%e2%82%ac%20rates.txt\r\n"),
        "€ rates.txt"
    );
    assert_eq!(
        name("Content-Disposition: attachment; filename*0*=utf-8''%e2%82%ac; filename*1*=.txt\r\n"),
        "€.txt"
    );
    assert_eq!(
        name("Content-Disposition: attachment; filename=\"=?utf-8?B?w6QudHh0?=\"\r\n"),
        "ä.txt"
    );
    assert_eq!(
        name("Content-Type: text/plain; name=\"a b.txt\"\r\n"),
        "a b.txt"
    );
    // The extended form takes precedence over the simple one, and the disposition over the type.
    assert_eq!(
        name(
            "Content-Disposition: attachment; filename=\"Resume.txt\"; filename*=utf-8''R%C3%A9sum%C3%A9.txt\r\n"
        ),
        "Résumé.txt"
    );
    assert_eq!(
        name(
            "Content-Disposition: attachment; filename*=; filename=a.txt\r\nContent-Type: text/plain; name*0=b.txt\r\n"
        ),
        "a.txt"
    );
    assert_eq!(
        name(
            "Content-Disposition: attachment\r\nContent-Type: text/plain; name*=utf-8''%C3%A9\r\n"
        ),
        "é"
    );
}

#[test]
fn a_type_that_cannot_be_understood_is_bytes() {
    let media = |header: &str| Part::of(header.as_bytes(), false).media;
    assert_eq!(
        media("Content-Type: TEXT/HTML; charset=utf-8\r\n"),
        "text/html"
    );
    assert_eq!(media("Content-Type: Text\r\n"), "text/plain");
    assert_eq!(media("Content-Type: image\r\n"), "application/octet-stream");
    assert_eq!(
        media(&format!("Content-Type: a/{}\r\n", "b".repeat(300))),
        "application/octet-stream"
    );
    assert_eq!(
        media("Content-Type: te xt/p<lain\r\n"),
        "application/octet-stream"
    );
    assert_eq!(media("Subject: none\r\n"), "text/plain");
    assert_eq!(Part::of(b"", true).media, "message/rfc822");
}

#[test]
fn a_field_of_more_than_is_answered_is_cut_and_says_so() {
    let header = format!(
        "To: {}\r\nSubject: {}\r\n",
        "a@b, ".repeat(1000),
        "é".repeat(600)
    );
    let cut = read(header.as_bytes());
    assert_eq!(
        (cut.to.len(), cut.subject.len(), cut.truncated),
        (28, 1000, true)
    );
    assert!(!read(b"To: a@b\r\nSubject: c\r\n").truncated);
}

#[test]
fn a_field_that_stands_twice_names_all_whom_it_names() {
    let read = read(b"From: a@x.org\r\nTo: b@x.org\r\nFrom: c@x.org\r\nTo: d@x.org\r\n");
    assert_eq!(read.from, [address("", "a@x.org"), address("", "c@x.org")]);
    assert_eq!(read.to, [address("", "b@x.org"), address("", "d@x.org")]);
}

#[test]
fn the_name_of_an_encoding_is_known_in_any_clothes() {
    let encoding = |name: &str| {
        Part::of(
            format!("Content-Transfer-Encoding: {name}\r\n").as_bytes(),
            false,
        )
        .encoding
    };
    for base64 in [
        "base64",
        "BASE64;",
        "\"Base64\"",
        " (a comment) base64 (another)",
        "base64\t",
    ] {
        assert_eq!(encoding(base64), Encoding::Base64, "{base64}");
    }
    for none in ["", "(", "(base64)", "8bit", "x-base64", "base 64", ";;"] {
        assert_eq!(encoding(none), Encoding::Identity, "{none}");
    }
}

#[test]
fn a_header_without_a_last_line_break_is_read_to_its_end() {
    let header = read(b"From: a@b\r\nSubject: the last");
    assert_eq!(
        (header.subject.as_str(), header.truncated),
        ("the last", false)
    );
    assert_eq!(
        Part::of(b"Content-Type: text/html", false).media,
        "text/html"
    );
    // The last line of a truncated header is dropped: a truncated address would be another address.
    let long = format!(
        "Subject: x\r\nTo: a@b,\r\n {}ada@example.org",
        " ".repeat(bounds::HEADER)
    );
    let cut = read(long.as_bytes());
    assert_eq!((cut.to.len(), cut.truncated), (1, true));
}

#[test]
fn words_and_names_that_cut_a_character_are_joined() {
    let header = read(
        b"Subject: =?utf-8?B?R3LD?=\r\n =?utf-8?B?vMOfZQ==?=\r\nFrom: =?us-ascii?Q?J=C3=BC?= <j@x.org>\r\n",
    );
    assert_eq!(header.subject, "Grüße");
    assert_eq!(header.from, [address("Jü", "j@x.org")]);
    let name = |header: &str| Part::of(header.as_bytes(), false).filename.unwrap();
    assert_eq!(
        name(
            "Content-Disposition: attachment; filename*0*=iso-8859-1''Gr%FC;\r\n filename*1*=%DFe.txt\r\n"
        ),
        "Grüße.txt"
    );
    assert_eq!(
        name(
            "Content-Disposition: attachment; filename=\"=?utf-8?B?w6TD?=\r\n =?utf-8?B?pC50eHQ=?=\"\r\n"
        ),
        "ää.txt"
    );
}

#[test]
fn an_entry_counts_for_more_than_its_letters() {
    let many = read(format!("From: {}\r\n", "a,".repeat(500)).as_bytes());
    assert_eq!((many.from.len(), many.truncated), (1000 / 33, true));
}

#[test]
fn words_with_a_label_of_the_web_or_of_no_one_are_readable() {
    for label in [
        "iso-2022-kr",
        "csiso2022kr",
        "replacement",
        "iso-2022-cn",
        "hz-gb-2312",
        "default",
    ] {
        let header = read(
            format!(
                "Subject: =?{label}?Q?Plain?= text\r\nFrom: =?{label}?B?SmFu?= <jan@x.org>\r\n\
                 Content-Type: text/plain; charset={label}\r\n"
            )
            .as_bytes(),
        );
        assert_eq!(header.subject, "Plain text", "{label}");
        assert_eq!(header.from, [address("Jan", "jan@x.org")], "{label}");
        let part = format!("Content-Disposition: attachment; filename=\"=?{label}?Q?a.txt?=\"\r\n");
        let part = Part::of(part.as_bytes(), false);
        assert_eq!(part.filename.as_deref(), Some("a.txt"), "{label}");
    }
}

#[test]
fn raw_bytes_of_a_header_are_in_the_character_set_of_the_body() {
    let subject = |charset: &str, value: &[u8]| {
        let mut header = b"Subject: ".to_vec();
        header.extend_from_slice(value);
        header.extend_from_slice(b"\r\n folded\r\nTo: \"");
        header.extend_from_slice(value);
        header.extend_from_slice(b"\" <a@x.org>\r\nContent-Type: text/plain; charset=");
        header.extend_from_slice(charset.as_bytes());
        let header = read(&header);
        assert_eq!(header.subject, format!("{} folded", header.to[0].name));
        header.to[0].name.clone()
    };
    for (charset, value, text) in [
        ("koi8-r", &b"\xf0\xd2\xc9\xd7\xc5\xd4"[..], "Привет"),
        ("gb2312", b"\xd6\xd0\xce\xc4", "中文"),
        ("\"Shift_JIS\"", b"\x93\xfa\x96{", "日本"),
        ("cp850", b"Gr\x81\xe1e", "Grüße"),
        // UTF-8 that is valid needs no label.
        ("koi8-r", "Привет".as_bytes(), "Привет"),
        ("iso-2022-jp", b"\x1b$BF|K\\\x1b(B", "日本"),
        ("us-ascii", b"\x1b$BF|K\\\x1b(B", "日本"),
        // These bytes are invalid in the declared character set.
        ("utf-8", b"Gr\xfc\xdfe", "Grüße"),
        ("gb2312", b"Gr\xfc\xdfe\xff", "Grüßeÿ"),
        ("unknown", b"Gr\xfc\xdfe \x80", "Grüße €"),
    ] {
        assert_eq!(subject(charset, value), text, "{charset}");
    }
    let part = Part::of(
        b"Content-Type: text/plain; charset=koi8-r; name=\xf0\xd2\xc9.txt\r\n",
        false,
    );
    assert_eq!(part.filename.as_deref(), Some("При.txt"));
}

#[test]
fn a_file_name_without_quotes_can_be_folded() {
    let name = |header: &str| Part::of(header.as_bytes(), false).filename.unwrap();
    assert_eq!(
        name("Content-Disposition: attachment;\r\n filename=STAR data\r\n\t17.04.13.zip\r\n"),
        "STAR data 17.04.13.zip"
    );
    assert_eq!(
        name("Content-Type: image/jpeg; name=photo(1).jpg\r\n"),
        "photo(1).jpg"
    );
}

#[test]
fn a_field_that_occurs_twice_has_the_last_value() {
    let header = read(b"Subject: a\r\nDate: x\r\nSubject: b\r\nDate: 20 Nov 2026 08:00 Z\r\n");
    assert_eq!(
        (header.subject.as_str(), header.date.is_some()),
        ("b", true)
    );
}
