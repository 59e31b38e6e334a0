//! Claims of a domain: the fields of the response, invalid bodies, and names in all their
//! spellings.

use serde_json::{Value, json};

use super::{
    DOMAINS, EXAMPLE, INVALID, MEMORY, MISSING, TestEnv, UNKNOWN, claim, list, read, release, text,
    verify,
};

/// Returns the names of a JSON object's members.
fn members(value: &Value) -> Vec<&str> {
    let members = value.as_object().unwrap().keys();
    members.map(String::as_str).collect()
}

/// Asserts that a value has the form `YYYY-MM-DD HH:MM:SS`.
#[track_caller]
fn assert_timestamp(value: &Value) {
    let text = value.as_str().unwrap();
    chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
    assert_eq!(text.len(), 19, "{text}");
}

#[tokio::test]
async fn a_domain_can_be_claimed_verified_listed_read_and_released() {
    let env = TestEnv::start().await;
    let ada = env.service.person("ada").await;
    let nothing = json!({ "domains": [], "limit": 5, "used": 0 });
    assert_eq!(list(&ada).await, nothing);

    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let shape = [
        "created_at",
        "domain",
        "status",
        "verification",
        "verified_at",
    ];
    assert_eq!(members(&claimed), shape);
    assert_eq!(claimed["domain"], EXAMPLE);
    assert_eq!(claimed["status"], "pending_verification");
    assert_eq!(claimed["verified_at"], Value::Null);
    assert_timestamp(&claimed["created_at"]);
    let wanted = &claimed["verification"];
    assert_eq!(members(wanted), ["host", "type", "value"]);
    assert_eq!(wanted["type"], "TXT");
    assert_eq!(wanted["host"], "_latchmail-challenge.ada.example");
    let token = text(wanted, "value")
        .strip_prefix("latchmail-verify=")
        .unwrap();
    assert_eq!(token.len(), 43);
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric()));

    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    env.service.clock.advance(MEMORY);
    env.publish_record(&claimed);
    let active = verify(&ada, EXAMPLE).await.succeeds(200);
    let shape = ["created_at", "domain", "records", "status", "verified_at"];
    assert_eq!(members(&active), shape);
    assert_eq!(active["status"], "active");
    assert_eq!(active["created_at"], claimed["created_at"]);
    assert_timestamp(&active["verified_at"]);
    for record in active["records"].as_array().unwrap() {
        assert_eq!(members(record), ["host", "kind", "ok", "value"]);
    }
    // Verifying again does not need the record.
    env.dns.clear();
    assert_eq!(verify(&ada, EXAMPLE).await.succeeds(200), active);
    assert_eq!(read(&ada, EXAMPLE).await.succeeds(200), active);
    let entry = json!({
        "domain": EXAMPLE, "status": "active", "created_at": claimed["created_at"], "verified_at": active["verified_at"],
    });
    let all = json!({ "domains": [entry], "limit": 5, "used": 1 });
    assert_eq!(list(&ada).await, all);

    let released = release(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(released, json!({ "success": true }));
    assert_eq!(list(&ada).await, nothing);
    for response in [
        read(&ada, EXAMPLE).await,
        verify(&ada, EXAMPLE).await,
        release(&ada, EXAMPLE).await,
    ] {
        response.fails(404, UNKNOWN);
    }
}

#[tokio::test]
async fn claiming_a_domain_again_returns_its_current_state() {
    let env = TestEnv::start().await;
    let ada = env.service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    for spelt in [EXAMPLE, "ADA.example", "ada.example.", " ada.example "] {
        assert_eq!(claim(&ada, spelt).await.succeeds(200), claimed, "{spelt}");
    }
    let pending = read(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(pending["verification"], claimed["verification"]);
    let kinds: Vec<&str> = pending["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| text(record, "kind"))
        .collect();
    assert_eq!(kinds, ["MX", "SPF", "DMARC"], "no key yet");
    env.publish_record(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    let again = claim(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(again["status"], "active");
    assert!(again.get("verification").is_none());
    assert_eq!(list(&ada).await["used"], 1);
}

#[tokio::test]
async fn an_invalid_body_is_refused_with_the_name_of_the_field() {
    let env = TestEnv::start().await;
    let ada = env.service.person("ada").await;
    for (body, output) in [
        ("", "Invalid JSON body"),
        ("{", "Invalid JSON body"),
        ("{}", INVALID),
        (r#"{"domain": null}"#, INVALID),
        (r#"{"domain": ""}"#, INVALID),
        (r#"{"domain": 7}"#, "domain must be a string"),
        (r#"{"domain": ["ada.example"]}"#, "domain must be a string"),
        (r#"["ada.example"]"#, "The body must be an object"),
    ] {
        ada.post_raw(DOMAINS, body).await.fails(400, output);
    }
    assert_eq!(list(&ada).await["used"], 0);
}

#[tokio::test]
async fn a_domain_name_is_normalized_or_refused_and_never_causes_a_failure() {
    let env = TestEnv::with("plans.default.custom_domains = 1000").await;
    let ada = env.service.person("ada").await;
    let label = "x".repeat(63);
    // The longest name that leaves space for the challenge.
    let longest = format!("{label}.{label}.{label}.{}.example", "y".repeat(32));
    assert_eq!(longest.len(), 232);
    for (typed, folded) in [
        ("ADA.Example", EXAMPLE),
        ("ada.example.", EXAMPLE),
        ("a.b.c.ada.example", "a.b.c.ada.example"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.EXAMPLE", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        // The same letter in two encodings (NFC), and digits and dots of other widths.
        ("bu\u{308}cher.example", "xn--bcher-kva.example"),
        ("ａｄａ。example", EXAMPLE),
        ("пример.example", "xn--e1afmkfd.example"),
        (&format!("{label}.example"), &format!("{label}.example")),
        (&longest, &longest),
    ] {
        let response = claim(&ada, typed).await;
        assert!(
            matches!(response.status, 200 | 201),
            "{typed}: {response:?}"
        );
        assert_eq!(response.json["domain"], *folded, "{typed}");
        // In paths too.
        let path = percent_encoded(typed);
        assert_eq!(
            read(&ada, &path).await.succeeds(200)["domain"],
            *folded,
            "{typed}"
        );
    }
    for name in [
        "example",
        "com",
        "co.uk",
        "github.io",
        "localhost",
        "192.0.2.1",
        "[192.0.2.1]",
        "2001:db8::1",
        "[IPv6:2001:db8::1]",
        "0x7f.1",
        "first.test",
        "FIRST.test.",
        "second.test",
        "ada..example",
        ".ada.example",
        "ada.example..",
        ".",
        "-ada.example",
        "ada-.example",
        "a_da.example",
        "ada@ada.example",
        "ada.example/x",
        "https://ada.example",
        "ada.example:25",
        "*.ada.example",
        "ada example.example",
        "ada\u{0}.example",
        "ada\n.example",
        "ada.example\r\nx",
        "xn--.example",
        "xn--a.example",
        "xn--zzzzzzzzzzz.example",
        "xn--\u{fc}.example",
        "xn--999999999.example",
        "\u{200b}.example",
        "\u{202e}ada.example",
        "\u{fffd}.example",
        "💌\u{fe0f}\u{200d}.example\u{0}",
        &format!("{label}x.example"),
        &format!("{label}.{label}.{label}.{}.example", "y".repeat(33)),
        &format!("{label}.{label}.{label}.{}.example", "y".repeat(54)),
        &format!("{label}.{label}.{label}.{label}.example"),
        &"ü.".repeat(100),
        &"a".repeat(16_000),
    ] {
        claim(&ada, name).await.fails(400, INVALID);
        let path = percent_encoded(name);
        // NUL is refused in every path, clients normalize dots, and heads have a size limit.
        if name.contains('\0') || name == "." || path.len() > 8000 {
            continue;
        }
        read(&ada, &path).await.fails(404, UNKNOWN);
        verify(&ada, &path).await.fails(404, UNKNOWN);
        release(&ada, &path).await.fails(404, UNKNOWN);
    }
    // A homograph is another domain, and is returned in its ASCII form.
    let (latin, mixed) = ("paypal.example", "p\u{430}ypal.example");
    claim(&ada, latin).await.succeeds(201);
    let response = claim(&ada, mixed).await;
    match response.status {
        201 => assert!(text(&response.json, "domain").starts_with("xn--")),
        _ => response.fails(400, INVALID),
    }
}

fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
