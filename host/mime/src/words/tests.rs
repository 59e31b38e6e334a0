use std::time::{Duration, Instant};

use super::*;

#[test]
fn encoded_words_are_decoded_with_common_errors() {
    for (text, expected) in [
        // A character that is split between two words, in both encodings.
        ("=?utf-8?B?R3LD?= =?UTF-8?B?vMOfZQ==?= x", "Grüße x"),
        ("=?utf-8?Q?a_=C3?= =?utf8?Q?=BC_?=", "a ü "),
        ("=?utf-8?Q?a_=C3?==?utf-8?B?vA==?=", "a ü"),
        (
            "=?gb2312?B?1tA=?= =?gb2312?B?zg==?= =?gb2312?B?xA==?=",
            "中文",
        ),
        // A group of four letters that is split between two words.
        ("=?utf-8?B?YWJjZ?= =?utf-8?B?GVmZ2g=?=", "abcdefgh"),
        ("=?utf-8?B?YW?= =?utf-8?B?JjZGVmZ2g=?=", "abcdefgh"),
        (
            "=?utf-8?B?YWJ?= =?utf-8?B?j?= =?utf-8?B?ZGVmZ2g?=",
            "abcdefgh",
        ),
        (
            "=?iso-8859-1?B?R3L8?= =?iso-8859-1?B?32?= =?iso-8859-1?B?U=?=",
            "Grüße",
        ),
        // Words that omit the padding.
        ("=?utf-8?b?w6TDtg?= =?utf-8?b?w6TDtg?=", "äöäö"),
        ("=?utf-8?b?w6TDtg?=", "äö"),
        ("=?utf-8?b?YQ?= =?utf-8?b?Yg==?=", "ab"),
        // Wrong labels, a language, an unknown label.
        ("=?us-ascii?Q?=C3=BC?= =?us-ascii?Q??=", "ü"),
        ("=?us-ascii?Q?=FC?=", "ü"),
        ("=?cp932?B?g24=?=", "ハ"),
        ("=?utf-8*en?Q?=C3=BC?=", "ü"),
        ("=?unknown-8bit?Q?=C3=BC?=", "ü"),
        ("=?%CHARSET?Q?=FC?=", "ü"),
        (
            "=?iso-2022-kr?Q?plain?= =?iso-2022-kr?B?GyQpQw5HUTFbDw==?=",
            "plain한글",
        ),
        ("=?hz-gb-2312?Q?~{VPND~}?=", "中文"),
        ("=?utf-7?Q?Gr+APw-e?=", "Grüe"),
        // Each word begins and ends in ASCII.
        (
            "=?ISO-2022-JP?B?GyRCJCobKEI=?= =?ISO-2022-JP?B?GyRCQ04bKEI=?=",
            "お知",
        ),
        // Words without white space around them, and words of several character sets.
        ("M=?utf-8?Q?=C3=BC?=ller", "Müller"),
        ("(=?utf-8?Q?=C3=BC?=)", "(ü)"),
        ("=?utf-8?Q?a?= =?iso-8859-1?Q?=FC?= b", "aü b"),
        // Spaces and question marks in a word.
        ("=?utf-8?Q?J=C3=BCrgen M=C3=BCller?=", "Jürgen Müller"),
        ("=?utf-8?Q?Really??=", "Really?"),
        ("=?utf-8?Q?a=?=", "a="),
        ("=?utf-8?Q?open =?utf-8?Q?c?=", "=?utf-8?Q?open c"),
        ("=?utf-8?Q?a=C3=BC\u{fc}?=", "aüü"),
    ] {
        assert_eq!(decode(text), expected, "{text}");
    }
    for same in [
        "a=?utf-8?X?b?=: c",
        "=?=?=?=?",
        "=?utf-8?X?a?=",
        "=?utf-8?Q?a",
        "=?utf 8?Q?a?=",
        "=?u?Q?a?=",
        "plain",
        "",
    ] {
        assert_eq!(decode(same), same);
    }
}

#[test]
fn many_words_are_decoded_in_linear_time() {
    for unit in [
        "=?utf-8?B?YWJjZ?= ",
        "=?utf-8?Q?=C3?= ",
        "=?utf-8?Q?a?= =?utf-7?Q?b?= ",
        "=?a?q?",
        "=?",
        "=?a?",
        "=?utf-8?Q?a ",
        "=?utf-8?Q?a?= x ",
    ] {
        let text = unit.repeat(200_000 / unit.len());
        let begun = Instant::now();
        decode(&text);
        assert!(begun.elapsed() < Duration::from_secs(5), "{unit}");
    }
}
