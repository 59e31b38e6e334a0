//! Which words a search finds: whole words, prefixes, phrases, folding, scripts, identifiers, HTML
//! and attachment names.

use latchmail_tests::{Service, imap};

use super::{HTML, TEXT, append, assert_found, indexed_texts};

#[tokio::test]
async fn words_are_found_whole_and_only_the_last_bare_word_is_a_prefix() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "The quarterly report is ready.",
        "Reporting starts in the quarter after next.",
        "A support ticket, reported twice.",
        "reports,quarters;(report)",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    for (query, expected) in [
        ("report", &["0", "1", "2", "3"][..]),
        ("repo", &["0", "1", "2", "3"]),
        ("reporting", &["1"]),
        ("eport", &[]),
        ("port", &[]),
        // Only the last word is a prefix.
        ("report quarter", &["0", "3"]),
        ("quarter report", &["1"]),
        ("repo ready", &[]),
        ("report read", &["0"]),
        // A quoted word and the value of an operator are not prefixes.
        ("\"report\"", &["0", "3"]),
        ("\"repo\"", &[]),
        ("quar \"report\"", &["0", "3"]),
        ("\"report\" quarter", &["0", "3"]),
        ("subject:0 quar", &["0"]),
        // All words must be in the message, in any order.
        ("ready quarterly", &["0"]),
        ("twice ticket support", &["2"]),
        ("ticket ready", &[]),
        // The case does not matter.
        ("QUARTERLY Report", &["0"]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn a_phrase_is_found_in_order_across_line_breaks_and_within_one_part() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "We meet at the old\r\nstone   bridge tomorrow.",
        "The stone is old, the bridge is new.",
        "stone-bridge",
        "Nothing.",
    ];
    let mut client = indexed_texts(&ada, TEXT, &texts).await;
    // The last word of the subject and the first word of the text are not a phrase.
    append(&mut client, "INBOX", "an old stone", TEXT, "bridge").await;
    for (query, expected) in [
        ("\"old stone bridge\"", &["0"][..]),
        ("\"stone bridge\"", &["0", "2"]),
        ("\"STONE, bridge!\"", &["0", "2"]),
        ("\"bridge stone\"", &[]),
        ("stone bridge", &["0", "1", "2", "an old stone"]),
        ("\"old stone\"", &["0", "an old stone"]),
        ("\"stone bri\"", &[]),
        ("\"stone\" \"new\"", &["1"]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn case_and_diacritics_are_folded_by_the_published_rules() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "Müller wohnt in der Hauptstraße",
        "Mu\u{308}ller und MULLER, HAUPTSTRASSE",
        "Ærøskøbing, Łódź, Đakovo",
        "İSTANBUL ve Diyarbakır",
        "ἐν ἀρχῇ ἦν ὁ λόγος",
        "ΛΟΓΟΣ",
        "Мой йод, ёлка",
        "Мои иод, елка",
        "ガラス",
        "カラス",
        "oﬃce Ｗｉｄｅ",
        "na\u{ad}ïve",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    for (query, expected) in [
        ("muller", &["0", "1"][..]),
        ("MÜLLER", &["0", "1"]),
        ("Mu\u{308}LLER", &["0", "1"]),
        ("hauptstrasse", &["0", "1"]),
        ("Hauptstraße", &["0", "1"]),
        ("HAUPTSTRAẞE", &["0", "1"]),
        ("aeroskobing", &["2"]),
        ("ÆRØSKØBING", &["2"]),
        ("lodz", &["2"]),
        ("łódź", &["2"]),
        ("dakovo", &["2"]),
        ("istanbul", &["3"]),
        ("ISTANBUL", &["3"]),
        ("diyarbakir", &["3"]),
        ("DİYARBAKIR", &["3"]),
        ("λογος", &["4", "5"]),
        ("ΛΌΓΟΣ", &["4", "5"]),
        ("λόγοσ", &["4", "5"]),
        ("αρχη", &["4"]),
        // Letters of other scripts with marks are letters of their own.
        ("йод", &["6"]),
        ("ЙОД", &["6"]),
        ("иод", &["7"]),
        ("ガラス", &["8"]),
        ("カ\u{3099}ラス", &["8"]),
        ("カラス", &["9"]),
        ("office", &["10"]),
        ("wide", &["10"]),
        ("naive", &["11"]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn chinese_japanese_and_korean_text_is_found_by_any_part() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "これは日本語の本文です。",
        "日本と語学",
        "你好，世界。会议在星期五。",
        "界世",
        "다음 회의는 금요일입니다.",
        "Meeting 会议 at 10",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    for (query, expected) in [
        ("日本語", &["0"][..]),
        ("日本", &["0", "1"]),
        ("本語の本", &["0"]),
        ("日語", &[]),
        ("本文", &["0"]),
        ("文本", &[]),
        ("語", &["0", "1"]),
        ("世界", &["2"]),
        ("界世", &["3"]),
        ("世", &["2", "3"]),
        ("会议", &["2", "5"]),
        ("星期五 会议", &["2"]),
        ("회의", &["4"]),
        ("금요일", &["4"]),
        ("meeting 会议", &["5"]),
        ("\"会议\" 10", &["5"]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn identifiers_and_addresses_are_found_whole_and_by_their_parts() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "Invoice INV-2024-00815 is due.",
        "Invoice INV-2024-00816 is paid.",
        "Write to anna.schmidt@example.com",
        "Write to schmidt.anna@example.org",
        "See https://wiki.example.com/pages/Release_Notes?id=42#top",
        "Version 1.95.0 of report_final.pdf",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    for (query, expected) in [
        ("INV-2024-00815", &["0"][..]),
        ("inv-2024-00815", &["0"]),
        ("INV-2024-008", &["0", "1"]),
        ("INV-2024", &["0", "1"]),
        ("2024-00816", &["1"]),
        ("00815", &["0"]),
        ("815", &[]),
        ("2024-INV", &[]),
        ("\"INV-2024-008\"", &[]),
        ("anna.schmidt@example.com", &["2"]),
        ("schmidt@example", &["2"]),
        ("anna@example.org", &["3"]),
        ("example.com", &["2", "4"]),
        ("anna", &["2", "3"]),
        ("example", &["2", "3", "4"]),
        ("wiki.example.com/pages", &["4"]),
        ("release_notes", &["4"]),
        ("notes", &["4"]),
        ("1.95.0", &["5"]),
        ("report_final.pdf", &["5"]),
        ("final", &["5"]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn the_visible_text_of_html_is_found_and_nothing_else_of_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "<html><head><style>.secretstyle { color: red }</style></head><body class=\"marginalia\"><p>Herr M&uuml;ller aus <b>Ber</b>lin</p>\
         <!-- commentary --><script>var scripted = 1;</script></body></html>",
        "<p>Shown</p><div style=\"display:none\">concealed</div><span style=\"color: red; display : NONE !important\">obscured</span>\
         <p hidden>veiled</p>",
        "<table width=\"600\"><tr><td>first cell</td><td>second</td></tr></table><p>one</p><p>two</p>",
        "<p>&#x4f60;&#22909; &amp; fish&nbsp;chips</p>",
    ];
    let mut client = indexed_texts(&ada, HTML, &texts).await;
    let alternative = "MIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=b\n";
    let body = "--b\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nNur Text: Zaunk=F6nig\n\
        --b\nContent-Type: text/html; charset=utf-8\n\n<p>Only in HTML: L&eacute;o</p>\n--b--";
    append(&mut client, "INBOX", "4", alternative, body).await;
    for (query, expected) in [
        ("müller", &["0"][..]),
        ("muller", &["0"]),
        ("berlin", &["0"]),
        ("\"aus berlin\"", &["0"]),
        ("lin", &[]),
        ("shown", &["1"]),
        ("concealed", &[]),
        ("obscured", &[]),
        ("veiled", &[]),
        // Markup is not text.
        ("secretstyle", &[]),
        ("marginalia", &[]),
        ("commentary", &[]),
        ("scripted", &[]),
        ("table", &[]),
        ("600", &[]),
        ("uuml", &[]),
        // Cells and paragraphs are separate words.
        ("cell", &["2"]),
        ("cellsecond", &[]),
        ("onetwo", &[]),
        ("two", &["2"]),
        ("你好", &["3"]),
        ("\"fish chips\"", &["3"]),
        ("nbsp", &[]),
        // Both parts of an alternative are searched.
        ("zaunkönig", &["4"]),
        ("léo", &["4"]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn the_subject_the_participants_and_the_names_of_attachments_are_searched() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let mixed = "From: Grace Hopper <grace@outside.test>\nTo: =?utf-8?Q?J=C3=BCrgen?= <j@inside.test>\nCc: copy@third.test\n\
        MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n";
    let body = "--b\nContent-Type: text/plain\n\nPlease find it attached.\n\
        --b\nContent-Type: application/pdf; name=\"=?utf-8?Q?Rechnung_M=C3=A4rz.pdf?=\"\n\
        Content-Disposition: attachment; filename*=utf-8''Rechnung%20M%C3%A4rz.pdf\nContent-Transfer-Encoding: base64\n\nc3Vua2Vu\n\
        --b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=numbers.csv\n\nburied,treasure\n--b--";
    append(&mut client, "INBOX", "Grüße vom Amt", mixed, body).await;
    let other = "From: Someone <s@else.test>\n";
    append(&mut client, "INBOX", "none", other, "Nothing.").await;
    ada.wait_for_index().await;
    for (query, is_found) in [
        ("grüsse amt", true),
        ("hopper", true),
        ("grace@outside.test", true),
        ("jürgen", true),
        ("jurgen", true),
        ("inside.test", true),
        ("third", true),
        ("rechnung", true),
        ("\"rechnung märz.pdf\"", true),
        ("marz", true),
        ("numbers.csv", true),
        ("amt hopper marz attached", true),
        // A phrase does not span two fields.
        ("\"amt grace\"", false),
        ("\"hopper jürgen\"", false),
        // The encoded text and the content of an attachment are not searched.
        ("c3Vua2Vu", false),
        ("sunken", false),
        ("utf", false),
        ("boundary", false),
    ] {
        let expected: &[&str] = if is_found { &["Grüße vom Amt"] } else { &[] };
        assert_found(&ada, query, expected).await;
    }
}
