//! Commands that create and show accounts.

use latchmail_tests::{PASSWORD, Service, add_alias};
use serde_json::{Value, json};

use super::{delivery, run_command, sign_in};

#[tokio::test]
async fn an_account_is_created_with_a_password_from_standard_input() {
    let service = Service::with_mail().await;
    // A reserved name, which cannot be registered.
    let made = service
        .operator("account create Postmaster@First.Test", "Pass-Word-1\n")
        .await
        .succeeds();
    assert_eq!(made, "postmaster@first.test was created.\n");
    let response = sign_in(&service, "postmaster@first.test", "Pass-Word-1").await;
    assert_eq!(response.succeeds(200)["user"]["isAdmin"], false);
    assert_eq!(delivery(&service, "postmaster@first.test").await, 250);

    let with_profile = [
        "account",
        "create",
        "ada@second.test",
        "--first-name",
        "Ada Augusta",
        "--last-name",
        "Lovelace",
        "--dob",
        "1990-12-10",
        "--admin",
        "--plan",
        "pro",
    ];
    let made = service.operator_with(&with_profile, "Pass-Word-2").await;
    assert_eq!(made.succeeds(), "ada@second.test was created.\n");
    let response = sign_in(&service, "ada@second.test", "Pass-Word-2").await;
    assert_eq!(response.succeeds(200)["user"]["isAdmin"], true);

    let shown = run_command(&service, "account show ada@second.test --json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    for (member, value) in [
        ("address", json!("ada@second.test")),
        ("active", json!(true)),
        ("admin", json!(true)),
        ("plan", json!("pro")),
        ("twoFactor", json!(false)),
        ("profile", json!(true)),
        ("aliases", json!([])),
    ] {
        assert_eq!(shown[member], value, "{member}");
    }
    assert_eq!(shown["credentials"].as_array().unwrap().len(), 1);
    assert_eq!(shown["credentials"][0]["type"], "web_session");
    let listed = run_command(&service, "account list --json").await;
    let listed: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1]["address"], "postmaster@first.test");
    assert_eq!(listed[1]["profile"], false);
}

#[tokio::test]
async fn an_invalid_account_is_refused_with_one_sentence() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "shop@first.test", true).await;
    for (verb, input, mention) in [
        ("account create ada@first.test", "Pass-Word-1\n", "already"),
        ("account create shop@first.test", "Pass-Word-1\n", "alias"),
        (
            "account create eve@elsewhere.test",
            "Pass-Word-1\n",
            "elsewhere.test is not a platform domain",
        ),
        ("account create eve", "Pass-Word-1\n", "not an address"),
        (
            "account create eve@first.test",
            "password1\n",
            "upper-case letter",
        ),
        ("account create eve@first.test", "", "standard input"),
        (
            "account create eve@first.test",
            "\nPass-Word-1\n",
            "at least 8",
        ),
        (
            "account create eve@first.test --plan gold",
            "Pass-Word-1\n",
            "default, none, pro",
        ),
        (
            "account create eve@first.test --first-name E --last-name M --dob 2030-01-01",
            "Pass-Word-1\n",
            "dob",
        ),
    ] {
        let output = service.operator(verb, input).await;
        output.fails_mentioning(mention);
        assert!(!output.stderr.contains("Pass-Word-1"), "{output:?}");
    }
    let partial = "account create eve@first.test --first-name E";
    let output = service.operator(partial, "Pass-Word-1\n").await;
    assert!(
        output.status == 2 && output.stderr.contains("--dob"),
        "{output:?}"
    );
    assert_eq!(
        run_command(&service, "account list --json")
            .await
            .lines()
            .count(),
        1
    );
}

#[tokio::test]
async fn the_output_for_people_contains_no_secret() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "shop@first.test", false).await;
    run_command(&service, "account two-factor ada@first.test on").await;
    let shown = run_command(&service, "account show ada@first.test").await;
    for part in [
        "ada@first.test",
        "shop@first.test  (inactive)",
        "web_session",
        "two-factor    on",
        "plan          default",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let listed = run_command(&service, "account list").await;
    let output = format!(
        "{shown}{listed}{}",
        run_command(&service, "audit --json").await
    );
    for secret in ["argon2", PASSWORD, "sealed", "hash"] {
        assert!(!output.contains(secret), "{secret} in {output}");
    }
}
