use std::time::{Duration, Instant};

use super::*;

fn read(field: &str) -> Option<String> {
    file_name(field, "filename")
}

#[test]
fn a_continued_value_is_joined_before_it_is_decoded() {
    for (field, expected) in [
        (
            "attachment; filename*0*=iso-8859-1''Gr%FC; filename*1*=%DFe; filename*2=\".t;x\\\"t\"",
            "Grüße.t;x\"t",
        ),
        (
            "attachment; FileName*1*=%BC.txt; filename*0*=utf-8'de'%C3",
            "ü.txt",
        ),
        // An escape, a character and the character set are split between pieces.
        (
            "x; filename*0*=utf-8''a%C; filename*1*=3%; filename*2*=BC.txt",
            "aü.txt",
        ),
        (
            "x; filename*0*=utf-8''%E6%97; filename*1*=%A5.txt",
            "日.txt",
        ),
        (
            "x; filename*0*=gbk''%D6; filename*1*=%D0; filename*2=.txt",
            "中.txt",
        ),
        ("x; filename*0=\"a b\"; filename*2=c", "a b"),
        ("x; filename=e.txt; filename*=utf-8''%C3%A9.txt", "é.txt"),
        ("x; filename*=utf-8''%C3%A9.txt; filename*1=.exe", "é.txt"),
        ("x; filename*=; filename=a.txt", "a.txt"),
        (
            "x; filename*0=\"=?utf-8?B?w6Q=?=\"; filename*1=.txt",
            "ä.txt",
        ),
        (
            "x; filename*0=\"=?utf-8?B?w6Q\"; filename*1=\"=?=.txt\"",
            "ä.txt",
        ),
        (
            "x; filename*0*=utf-8''%3D%3Futf-8%3FQ%3F; filename*1*=%3D41%3F%3D",
            "=?utf-8?Q?=41?=",
        ),
        ("x; filename*=iso-2022-kr''plain.txt", "plain.txt"),
        ("x; filename*=\"utf-8''%C3%A9.txt\"", "é.txt"),
        ("x; filename*=no-charset.pdf", "no-charset.pdf"),
    ] {
        assert_eq!(read(field).as_deref(), Some(expected), "{field}");
    }
    for none in [
        "",
        "x; filename*x=a",
        "x; filename*1=a",
        "; =; filename*0",
        "x; filename=\"\"",
        "filename=a",
    ] {
        assert_eq!(read(none), None, "{none}");
    }
}

#[test]
fn a_file_name_without_quotes_ends_at_a_semicolon() {
    for (field, expected) in [
        (
            "attachment; filename=STAR data 17.04.13.zip",
            "STAR data 17.04.13.zip",
        ),
        ("attachment; filename=photo(1).jpg; size=3", "photo(1).jpg"),
        (
            "attachment; filename=photo (1).jpg ;size=3",
            "photo (1).jpg",
        ),
        ("attachment; filename=a=b.txt; x=y", "a=b.txt"),
        ("attachment; filename=5\" disk.txt; size=3", "5\" disk.txt"),
        ("attachment; filename = a\\b.txt", "a\\b.txt"),
        ("attachment; size=\"1;filename=x\"; filename=a.txt", "a.txt"),
        (
            "attachment; filename==?utf-8?Q?a;=C3=BC?= =?utf-8?Q?.txt?=; size=3",
            "a;ü.txt",
        ),
        (
            "attachment; filename=\"=?utf-8?Q?a;=C3=BC?=.txt\"",
            "a;ü.txt",
        ),
        ("attachment; filename=\"open.txt", "open.txt"),
        ("attachment; filename=a.txt; filename=b.txt", "a.txt"),
    ] {
        assert_eq!(read(field).as_deref(), Some(expected), "{field}");
    }
}

#[test]
fn a_token_ends_at_a_comment() {
    for (field, expected) in [
        ("text/plain; charset=utf-8 (a comment)", "utf-8"),
        ("text/plain; charset=\"utf-8\" (a comment); x=y", "utf-8"),
        ("text/plain; Charset = \"a (b)\"", "a (b)"),
        ("text/plain; charset*=us-ascii'en'utf-8", "utf-8"),
        ("text/plain; charset*0=iso-; charset*1=8859-1", "iso-8859-1"),
    ] {
        assert_eq!(
            token(field, "charset").as_deref(),
            Some(expected),
            "{field}"
        );
    }
    assert_eq!(main_value(" \"text/html\" (x); a=b"), "text/html");
    assert_eq!(main_value("; a=b"), "");
}

#[test]
fn many_pieces_are_joined_in_linear_time() {
    let pieces: Vec<_> = (0..20_000)
        .rev()
        .map(|number| format!("; filename*{number}*=%C3"))
        .collect();
    let pieces = pieces.concat();
    let words = "; filename=\"=?utf-8?B?YWJjZ?=\"".repeat(20_000);
    let unquoted = format!("; filename={}", "=?utf-8?Q?a".repeat(20_000));
    for parameters in [pieces, words, unquoted] {
        let begun = Instant::now();
        read(&parameters);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
