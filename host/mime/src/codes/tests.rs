use super::*;

fn hidden(text: &str) -> String {
    let mut text = text.to_owned();
    hide(&mut [&mut text]);
    text
}

#[test]
fn codes_are_hidden_in_every_spelling() {
    for text in [
        "Your verification code is 482913.",
        "482913 is your Example verification code",
        "Use 482 913 to finish signing in",
        "One-time password\n\n482-913\n",
        "G-482913 is your verification code.",
        "Security code: \u{ff14}\u{ff18}\u{ff12}\u{ff19}\u{ff11}\u{ff13}",
        "Login code 4\u{200b}8\u{200b}2\u{200b}9\u{200b}13",
        "Enter this confirmation code: AB7K9Q",
        "Your code is 4829",
        "Ihr Best\u{e4}tigungscode lautet 482913",
        "Votre code de v\u{e9}rification est 482913",
        "\u{9a8c}\u{8bc1}\u{7801}\u{ff1a}482913",
        "\u{43a}\u{43e}\u{434} \u{434}\u{43b}\u{44f} \u{432}\u{445}\u{43e}\u{434}\u{430}: 482913",
        "PIN: 4829",
        "Your sign-in code is KXQ-PLM.",
        "Your verification code: a7k2m9",
    ] {
        let hidden = hidden(text);
        assert!(hidden.contains(HIDDEN_CODE), "{text}: {hidden}");
        assert!(
            !hidden.contains("913") && !hidden.contains("4829"),
            "{hidden}"
        );
    }
}

#[test]
fn links_for_signing_in_are_hidden() {
    for text in [
        "https://example.org/reset?token=8f1c2b3a4d5e6f708192",
        "Reset your password: https://example.org/r/8f1c2b3a4d5e6f708192 (30 minutes)",
        "Use this magic link: <https://example.org/m/AbC>",
        "HTTPS://example.org/verify-email/eyJhbGciOiJIUzI1NiJ9.abc1",
    ] {
        let hidden = hidden(text);
        assert!(hidden.contains(HIDDEN_LINK), "{text}: {hidden}");
        assert!(!hidden.contains("example.org"), "{hidden}");
    }
    let html = "<a href=\"https://example.org/m/AbC123\">Sign in</a>";
    assert!(has_links(html, &["Your magic link"]));
    assert!(!has_links(html, &["Our new office"]));
    let source = "<p style=\"display:none\">482913 is your verification code</p><p>Hello</p>";
    assert!(has_codes_in_source(source, &["Hello"]));
    assert!(has_codes_in_source(html, &["Your magic link"]));
    assert!(!has_codes_in_source(
        "<p style=\"color:#333333\">Hello</p>",
        &["Hello"]
    ));
}

#[test]
fn other_numbers_and_links_stay() {
    for text in [
        "Invoice 482913 of 2026-11-20 over 1,500.00 EUR",
        "Use the discount code SAVE2026 until Friday",
        "Our zip code is 94107",
        "We saw the error code 500123 again",
        "The source code has 48291 lines",
        "Call me at +49 30 123456 or 555 1234",
        "The meeting is at 1430 in room 4021",
        "Meeting ID: 812 3456 7890\nPasscode: 482913",
        "https://example.org/news?utm_source=mail&id=4829134829134829",
        "See https://example.org/blog/2026/how-we-sign-in",
        "Order 8829-1120 has shipped, tracking code 1Z999AA10123456784",
        "I will change the budget to 48000",
        "The code of iphone12 and the TEAM are in the repository",
    ] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn all_texts_of_a_message_decide_together() {
    let mut subject = "Your one-time code".to_owned();
    let mut preview = "Hello Ada, 482913 (expires in 10 minutes). \u{a9} 2026 Example".to_owned();
    assert!(hide(&mut [&mut subject, &mut preview]));
    assert_eq!(
        preview,
        "Hello Ada, [hidden code] (expires in 10 minutes). \u{a9} 2026 Example"
    );
    assert_eq!(subject, "Your one-time code");
    assert!(has_codes(&["Your one-time code", "482913"]));
    assert!(!has_codes(&["Lunch", "482913"]));
}
