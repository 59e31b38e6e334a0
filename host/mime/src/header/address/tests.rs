use super::super::Header;
use super::*;

fn from(field: &str) -> Vec<Address> {
    Header::of(format!("From: {field}\r\n").as_bytes(), 1000).from
}

fn address(name: &str, address: &str) -> Address {
    Address {
        name: name.into(),
        address: address.into(),
    }
}

#[test]
fn a_local_part_in_quotes_is_part_of_the_address() {
    assert_eq!(
        from("\"spaced local\"@x.org"),
        [address("", "\"spaced local\"@x.org")]
    );
    assert_eq!(
        from("Bo <\"spaced local\"@x.org>, \"a\\\"b\"@y.org (Bo), c@z.org"),
        [
            address("Bo", "\"spaced local\"@x.org"),
            address("Bo", "\"a\\\"b\"@y.org"),
            address("", "c@z.org")
        ]
    );
    assert_eq!(
        from("ada\r\n @x.\torg, ada@y.org"),
        [address("", "ada@x.org"), address("", "ada@y.org")]
    );
    assert_eq!(
        from("Foo Bar @x.org, Foo (Bar) <@x.org>"),
        [
            address("", "Foo Bar @x.org"),
            address("Foo (Bar)", "@x.org")
        ]
    );
    assert_eq!(from("Foo <@x.org>"), [address("Foo", "@x.org")]);
    assert_eq!(from("\"Foo\" <@x.org>"), [address("Foo", "@x.org")]);
}

#[test]
fn white_space_around_the_at_sign_is_not_part_of_the_address() {
    for field in [
        "jan @ x.org",
        "jan@ x.org",
        "jan @x.org",
        "<jan @\t x.org>",
        "< jan@x . org >",
    ] {
        assert_eq!(from(field), [address("", "jan@x.org")], "{field}");
    }
    assert_eq!(from("Jan <jan @ x.org>"), [address("Jan", "jan@x.org")]);
    assert_eq!(
        from("Jan jan@ x.org (y)"),
        [address("Jan (y)", "jan@x.org")]
    );
}

#[test]
fn encoded_words_are_decoded_everywhere() {
    for (field, name, mail) in [
        ("M=?utf-8?Q?=C3=BC?=ller <m@x.org>", "Müller", "m@x.org"),
        ("=?utf-8?Q?M=C3=BC?=ller <m@x.org>", "Müller", "m@x.org"),
        ("\"M=?utf-8?Q?=C3=BC?=ller\" <m@x.org>", "Müller", "m@x.org"),
        ("m@x.org (M=?utf-8?Q?=C3=BC?=ller)", "Müller", "m@x.org"),
        (
            "Jan =?utf-8?Q?M=C3?= =?utf-8?Q?=BC?= <m@x.org>",
            "Jan Mü",
            "m@x.org",
        ),
        ("=?utf-8?Q?a=2C_b?=<m@x.org>", "a, b", "m@x.org"),
        (
            "=?utf-8?Q?Jan?= <=?utf-8?Q?jan=40firm.example?=>",
            "Jan",
            "jan@firm.example",
        ),
        ("Jan <=?utf-8?Q?jan?=@x.org>", "Jan", "jan@x.org"),
        ("=?utf-8?Q?Jan_=3Cjan=40x.org=3E?=", "Jan", "jan@x.org"),
        ("<=?utf-8?Q?Jan_=3Cjan=40x.org=3E?=>", "Jan", "jan@x.org"),
        ("=?utf-8?Q?jan=40x.org?=", "", "jan@x.org"),
        ("=?utf-8?Q?jan?=@x.org", "", "jan@x.org"),
        ("=?utf-8?Q?Jan?=jan@x.org", "Jan", "jan@x.org"),
        ("=?utf-8?Q?Jan_M?=@x.org", "Jan M", "@x.org"),
        ("=?utf-8?Q?a?= =?utf-7?Q?b?= <m@x.org>", "ab", "m@x.org"),
        (
            "=?utf-8?Q?a=0D=0ABcc:_b?= <m@x.org>",
            "a  Bcc: b",
            "m@x.org",
        ),
    ] {
        assert_eq!(from(field), [address(name, mail)], "{field}");
    }
}

#[test]
fn a_name_is_never_part_of_an_address() {
    let names = [
        "Jan",
        "\"Jan\"",
        "\"Doe, Jan\"",
        "Jan Doe",
        "J. Doe",
        "Dr.",
        "=?utf-8?Q?Jan?=",
        "\"=?utf-8?B?SmFu?=\"",
        "=?utf-8?Q?Jan=2C?= =?us-ascii?Q?_Doe?=",
        "Jan@home",
        "Jan (Doe)",
        "(Jan)",
        "\"Jan\" Doe",
        "M\u{fc}ller",
        "",
        "=?utf-8?Q?Jan_=3Ca=40b=3E?=",
        "Jan\tDoe",
        "Jan; Doe",
        "=?iso-2022-kr?Q?Jan?=",
        "\"Jan\\\" Doe\"",
        "a=?b",
    ];
    for name in names {
        for mail in [
            "<ada@x.org>",
            " <ada@x.org>",
            " <ada @x.org>",
            "\r\n <ada@x.org>",
            " <=?utf-8?Q?ada=40x.org?=>",
        ] {
            let read = from(&format!("{name}{mail}"));
            let last = read.last().map(|one| one.address.as_str());
            assert_eq!(last, Some("ada@x.org"), "{name}{mail}");
        }
        let empty = from(&format!("{name}<>")).pop();
        assert!(empty.is_none_or(|one| one.address.is_empty()), "{name}");
    }
    for field in [
        "Jan <>",
        "\"Jan\"",
        "=?utf-8?Q?Jan?=",
        "(Jan)",
        "=?utf-8?Q?J?= an",
    ] {
        let read = from(field);
        assert_eq!(read[0].address, "", "{field}");
        assert!(!read[0].name.is_empty(), "{field}");
    }
    // Without quotes, the text can be a local user.
    assert_eq!(from("root (Cron)"), [address("Cron", "root")]);
}

#[test]
fn a_malformed_list_hides_no_address() {
    for (field, expected) in [
        ("a@x.org b@y.org", vec![address("", "a@x.org b@y.org")]),
        ("a@x.org <b@y.org>", vec![address("a@x.org", "b@y.org")]),
        ("<a@x.org> <b@y.org>", vec![address("<a@x.org>", "b@y.org")]),
        (
            "Jan <a@x.org, b@y.org",
            vec![address("Jan", "a@x.org"), address("", "b@y.org")],
        ),
        (
            "a@x.org; b@y.org",
            vec![address("", "a@x.org"), address("", "b@y.org")],
        ),
        (
            "a@[IPv6:::1], b@y.org",
            vec![address("", "a@[IPv6:::1]"), address("", "b@y.org")],
        ),
        ("<\"a>,b\"@x.org>", vec![address("", "\"a>,b\"@x.org")]),
        (
            "a@x.org>, <<b@y.org>>",
            vec![address("", "a@x.org"), address("", "b@y.org")],
        ),
        (
            "\"a <a@x.org>, b@y.org",
            vec![address("", "a <a@x.org>, b@y.org")],
        ),
        (
            "Jan <a@x.o,rg>, b@y.org",
            vec![address("Jan", "a@x.o,rg"), address("", "b@y.org")],
        ),
        (
            "Jan Doe (<a@x.org>)",
            vec![address("Jan Doe (<a@x.org>)", "")],
        ),
        ("Me -> You <a@x.org>", vec![address("Me -> You", "a@x.org")]),
    ] {
        assert_eq!(from(field), expected, "{field}");
    }
}

#[test]
fn brackets_and_routes_are_not_of_the_address() {
    assert_eq!(
        from("<@a.org,@b.org:ada@x.org>, <<bo@x.org>>, Cy <@d.org>"),
        [
            address("", "ada@x.org"),
            address("", "bo@x.org"),
            address("Cy", "@d.org")
        ]
    );
}
