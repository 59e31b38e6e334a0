use super::*;

fn read(bytes: &[u8], label: &str) -> String {
    Charset::named(Some(label)).decode(bytes.to_vec(), false)
}

#[test]
fn labels_are_known_in_every_spelling() {
    let text = b"\x83n\xb0\xa1\xc4\xe3";
    for (known, others) in [
        (
            "windows-1252",
            "cp-1252 windows1252 ansi-1252 CP1252 win-1252 x-cp1252 cswindows1252 1252",
        ),
        (
            "windows-1252",
            "iso8859-1 iso_8859_1 latin-1 'latin1' L1 ISO-8859-1:1987 8859-1 ibm819 \
             csISOLatin1 cp28591",
        ),
        (
            "windows-1250",
            "x-windows-1250 cp-1250 Windows_1250 ansi_1250 ms1250",
        ),
        ("iso-8859-2", "ISO8859-2 iso88592 latin2 l2 cp28592"),
        ("iso-8859-15", "latin9 ISO_8859-15 iso8859_15 l9 cp28605"),
        ("windows-1254", "latin5 iso-8859-9 iso8859_9 cp1254"),
        (
            "shift_jis",
            "cp-932 cp932 windows-932 windows-31j Shift-JIS sjis x-sjis ms_kanji ms932 csShiftJIS",
        ),
        (
            "euc-kr",
            "euckr ks_c_5601-1987 KS_C_5601-1989 cp949 x-cp949 windows-949 ksc5601 UHC \
             korean csEUCKR",
        ),
        (
            "gbk",
            "gb2312 gb_2312-80 GB_2312 cp936 x-gbk euc-cn ms936 csGB2312 csISO58GB231280",
        ),
        ("gb18030", "GB18030-2000 cp54936"),
        ("big5", "Big-5 cn-big5 big5-hkscs x-x-big5 cp950"),
        ("euc-jp", "eucjp x-euc-jp cp51932 ujis"),
        ("koi8-r", "koi8r KOI8 cskoi8r cp20866"),
        ("koi8-u", "koi8-ru KOI8U"),
        ("macintosh", "mac x-mac-roman MacRoman cp10000"),
        ("ibm866", "cp866 866 dos-866"),
        (
            "ibm850",
            "cp850 850 cp-850 csPC850Multilingual IBM_850 oem850",
        ),
        ("cp437", "ibm437 437 csPC8CodePage437"),
        ("cp858", "ibm858 CCSID00858"),
        ("windows-874", "tis-620 iso-8859-11 dos-874 cp874"),
        (
            "utf-8",
            "utf8 UTF_8 \"utf-8\" utf-8*en unicode-1-1-utf-8 cp65001 x-utf-8 utf8mb4",
        ),
        ("utf-16le", "utf-16 unicode ucs-2 cp1200 UTF16"),
        (
            "utf-7",
            "UTF7 unicode-1-1-utf-7 csUTF7 x-unicode-1-1-utf-7 cp65000",
        ),
        ("iso-2022-kr", "csiso2022kr iso2022kr cp50225"),
        ("hz-gb-2312", "hz HZ-GB2312"),
        (
            "iso-2022-jp",
            "ISO2022JP iso-2022-jp-ms csISO2022JP cp50220 _iso-2022-jp$ESC",
        ),
        (
            "us-ascii",
            "ASCII ANSI_X3.4-1968 us_ascii iso646-us cp367 us-ascii;format=flowed",
        ),
    ] {
        let expected = Charset::named(Some(known));
        for label in others.split(' ') {
            assert_eq!(Charset::named(Some(label)), expected, "{label}");
            assert_eq!(read(text, label), read(text, known), "{label}");
        }
    }
    assert_eq!(Charset::named(Some(" UTF 8 ")), Charset::Web(UTF_8));
    for (bytes, label, text) in [
        (&b"\x83n\x83\x8d"[..], "cp932", "ハロ"),
        (b"\x81\x94\x80", "cp437", "üöÇ"),
        (b"\x81\xd5", "ibm850", "üı"),
        (b"\x81\x9f", "cp852", "üč"),
        (b"\xd5", "cp858", "€"),
        (b"\xaf", "cp866", "п"),
        (b"\xc0\xd2\xd4", "koi8r", "юрт"),
        (b"\xb9", "x-windows-1250", "ą"),
    ] {
        assert_eq!(read(bytes, label), text, "{label}");
    }
}

#[test]
fn an_unknown_label_is_no_label() {
    let none = |bytes: &[u8]| Charset::named(None).decode(bytes.to_vec(), false);
    for label in [
        "",
        "unknown-8bit",
        "default",
        "%CHARSET",
        "x-unknown",
        "x-user-defined",
        "iso-8859-",
        "none",
        "us-ascii",
        "ASCII",
        "ansi_x3.4-1968",
        "cp99999",
        "iso-8859-99",
        "é",
        "xxxxcs",
    ] {
        for bytes in [
            "Grüße".as_bytes(),
            b"Gr\xfc\xdfe \x80",
            b"\x1b$BF|K\\\x1b(B a",
            b"\xc3",
        ] {
            assert_eq!(read(bytes, label), none(bytes), "{label}");
        }
    }
    assert_eq!(none("Grüße".as_bytes()), "Grüße");
    assert_eq!(none(b"Gr\xfc\xdfe \x80"), "Grüße €");
    // An incomplete last character must not make the text Windows-1252.
    let cut = Charset::default().decode(b"Gr\xc3\xbc\xc3".to_vec(), true);
    assert_eq!(cut, "Grü\u{fffd}");
    assert_eq!(read(b"a\xff", "utf-8"), "a\u{fffd}");
}

#[test]
fn ascii_is_ascii_under_every_label() {
    let ascii: String = (' '..='~').filter(|c| !matches!(c, '+' | '~')).collect();
    let text = format!("{ascii}\r\n\t~~{{+-");
    for label in [
        "iso-2022-kr",
        "csiso2022kr",
        "hz-gb-2312",
        "iso-2022-cn",
        "iso-2022-cn-ext",
        "replacement",
        "iso-2022-jp",
        "utf-16",
        "utf-16be",
        "utf-7",
        "utf-8",
        "shift_jis",
        "big5",
        "gb18030",
        "euc-kr",
        "cp437",
        "windows-1255",
        "x-user-defined",
        "%CHARSET",
    ] {
        let decoded = read(text.as_bytes(), label);
        assert!(decoded.starts_with(&ascii), "{label}: {decoded}");
        for text in ["~{a b c", "C++ a+b +- 1+1", "~} ~~ ~{", "+", "~"] {
            let decoded = read(text.as_bytes(), label);
            assert!(!decoded.contains('\u{fffd}'), "{label}: {decoded}");
        }
    }
}

#[test]
fn character_sets_of_seven_bits_are_decoded() {
    assert_eq!(
        read(b"\x1b$)C\x0eGQ1[\x0f ok\r\nGQ", "iso-2022-kr"),
        "한글 ok\r\nGQ"
    );
    assert_eq!(read(b"\x0eGQ1[\x0f", "csISO2022KR"), "한글");
    // Each line begins with ASCII.
    assert_eq!(read(b"\x0eGQ\nGQ", "iso-2022-kr"), "한\nGQ");
    assert_eq!(read(b"~{VPND~} a~~b ~\nc", "hz-gb-2312"), "中文 a~b c");
    assert_eq!(read(b"~{VPND\nVP", "hz"), "中文\nVP");
    assert_eq!(read(b"\x1b$BF|K\\8l\x1b(B", "iso-2022-jp"), "日本語");
    assert_eq!(
        read(b"Hi Mom -+Jjo--! +ZeVnLIqe +- +APw", "utf-7"),
        "Hi Mom -☺-! 日本語 + ü"
    );
    // The bytes contradict the label.
    for label in [
        "iso-2022-kr",
        "iso-2022-jp",
        "iso-2022-cn",
        "hz",
        "utf-7",
        "replacement",
        "utf-16",
    ] {
        assert_eq!(
            read("Grüße 日本".as_bytes(), label),
            "Grüße 日本",
            "{label}"
        );
    }
    assert_eq!(
        read(b"\x1b$BF|K\\8l\x1b(B\r\nGr\xc3\xbc\xc3\x9fe", "iso-2022-jp"),
        "日本語\r\nGrüße"
    );
    assert_eq!(read(b"\xc7\xd1", "iso-2022-kr"), "한");
    // Without a label, the escape sequences show the character set.
    for label in ["", "us-ascii", "unknown-8bit"] {
        assert_eq!(read(b"a \x1b$BF|K\\8l\x1b(B", label), "a 日本語");
        assert_eq!(read(b"\x1b$)C\x0eGQ1[\x0f", label), "한글");
        assert_eq!(read(b"\x1b[31mred\x1b[0m", label), "\x1b[31mred\x1b[0m");
    }
    let cut = Charset::default().decode(b"\x1b$BF|K\\8".to_vec(), true);
    assert_eq!(cut, "日本\u{fffd}");
}

#[test]
fn a_byte_order_mark_is_no_text() {
    assert_eq!(read(b"\xef\xbb\xbfa", "utf-8"), "a");
    assert_eq!(read(b"\xef\xbb\xbfa", ""), "a");
    assert_eq!(read(b"\xef\xbb\xbf\xc3\xbc", "iso-8859-1"), "ü");
    for (bytes, label) in [
        (&b"\xff\xfea\0\xfc\0"[..], "utf-16"),
        (b"\xfe\xff\0a\0\xfc", "utf-16"),
        (b"\0a\0\xfc", "utf-16"),
        (b"a\0\xfc\0", "utf-16be"),
        (b"a\0\xfc\0x", "utf-16le"),
    ] {
        assert_eq!(read(bytes, label), "aü", "{bytes:?}");
    }
}

#[test]
fn the_beginning_of_a_text_is_decoded_if_the_rest_cannot_change_it() {
    let beginning =
        |bytes: &'static [u8], label| Charset::named(Some(label)).decode_beginning(bytes);
    for label in [
        "",
        "us-ascii",
        "iso-8859-1",
        "cp850",
        "utf-8",
        "koi8-r",
        "shift_jis",
    ] {
        assert_eq!(beginning(b"abc", label), Some("abc"), "{label}");
    }
    for label in ["utf-16", "iso-2022-jp", "iso-2022-kr", "hz", "utf-7"] {
        assert_eq!(beginning(b"abc", label), None, "{label}");
    }
    assert_eq!(beginning(b"\xef\xbb\xbfa\xc3\xbc\xc3", "utf-8"), Some("aü"));
    assert_eq!(beginning(b"a\xc3\xbc", ""), None);
    assert_eq!(beginning(b"a\x1b$B", ""), None);
}
