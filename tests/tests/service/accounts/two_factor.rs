//! Two-factor sign-in, from the operator's command to the session.

use std::time::Duration;

use latchmail_tests::{Log, PASSWORD, Person, Response, Service};
use serde_json::{Value, json};
use totp_rs::{Builder, Secret};

const LOGIN: &str = "/api/v1/auth/login";
const INVALID: &str = "Invalid credentials";
const REQUIRED: &str = "Two-factor code required";

/// What the operator's command printed when two-factor sign-in was turned on.
struct Device {
    secret: String,
    recovery: Vec<String>,
}

impl Device {
    async fn of(person: &Person<'_>) -> Self {
        let verb = format!("account two-factor {} on", person.address);
        let shown = person.service.operator(&verb, "").await.succeeds();
        let secret = shown
            .lines()
            .find_map(|line| line.strip_prefix("secret  "))
            .unwrap()
            .to_owned();
        let url = shown
            .lines()
            .find_map(|line| line.strip_prefix("url     "))
            .unwrap();
        assert!(
            url.starts_with("otpauth://totp/Latchmail:") && url.contains(&secret),
            "{url}"
        );
        Self {
            secret,
            recovery: recovery(&shown),
        }
    }

    /// Returns the code at that number of seconds from now.
    fn code(&self, service: &Service, seconds: i64) -> String {
        let secret = Secret::try_from_base32(&self.secret).unwrap();
        let totp = Builder::new().with_secret(secret).build().unwrap();
        let now = service.clock.now().seconds() + seconds;
        totp.generate(now.try_into().unwrap()).to_string()
    }
}

/// Returns the recovery codes, which are printed last.
fn recovery(shown: &str) -> Vec<String> {
    let (_, codes) = shown.split_once("instead of a code:\n").unwrap();
    let codes: Vec<String> = codes.lines().map(ToOwned::to_owned).collect();
    assert_eq!(codes.len(), 10);
    codes
}

async fn sign_in(service: &Service, password: &str, code: Value) -> Response {
    let mut body = json!({ "email": "ada@first.test", "password": password, "code": code });
    if code.is_null() {
        body.as_object_mut().unwrap().remove("code");
    }
    service.post(LOGIN, &body).await
}

#[tokio::test]
async fn a_code_is_required_after_the_right_password_and_is_valid_once() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    let code = device.code(&service, 0);

    sign_in(&service, PASSWORD, Value::Null)
        .await
        .fails(401, REQUIRED);
    for code in [json!("000000x"), json!(""), json!("12345"), json!("१२३४५६")] {
        sign_in(&service, PASSWORD, code).await.fails(401, INVALID);
    }
    for code in [Value::Null, json!(code), json!("")] {
        sign_in(&service, "Wrong-Horse-7", code)
            .await
            .fails(401, INVALID);
    }
    let spaced = format!("{} {}", &code[..3], &code[3..]);
    let pair = sign_in(&service, PASSWORD, json!(spaced))
        .await
        .succeeds(200);
    assert_eq!(pair["user"]["email"], "ada@first.test");
    sign_in(&service, PASSWORD, json!(code))
        .await
        .fails(401, INVALID);
    // Existing sessions continue.
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
}

#[tokio::test]
async fn a_code_must_be_a_string() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    for code in [json!(123_456), json!(null), json!(["123456"]), json!(true)] {
        let body = json!({ "email": "ada@first.test", "password": PASSWORD, "code": code });
        service
            .post(LOGIN, &body)
            .await
            .fails(400, "Invalid email or password format");
    }
}

#[tokio::test]
async fn without_two_factor_a_code_is_ignored() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    sign_in(&service, PASSWORD, json!("nonsense"))
        .await
        .succeeds(200);
    Device::of(&ada).await;
    sign_in(&service, PASSWORD, json!("nonsense"))
        .await
        .fails(401, INVALID);
    let off = "account two-factor ada@first.test off";
    service.operator(off, "").await.succeeds();
    sign_in(&service, PASSWORD, json!("nonsense"))
        .await
        .succeeds(200);
    let again = service.operator(off, "").await.succeeds();
    assert!(again.contains("already"), "{again}");
}

#[tokio::test]
async fn a_clock_can_differ_by_one_step_but_not_by_two() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    for (seconds, status) in [(-60, 401), (-30, 200), (0, 200), (60, 401), (30, 200)] {
        let code = device.code(&service, seconds);
        let response = sign_in(&service, PASSWORD, json!(code)).await;
        assert_eq!(response.status, status, "{seconds}");
    }
    // A later code was accepted, so earlier ones are no longer valid, used or not.
    service.clock.advance(Duration::from_secs(30));
    let code = device.code(&service, -30);
    sign_in(&service, PASSWORD, json!(code))
        .await
        .fails(401, INVALID);
    let code = device.code(&service, 30);
    sign_in(&service, PASSWORD, json!(code)).await.succeeds(200);
}

#[tokio::test]
async fn a_recovery_code_is_valid_once_in_any_notation() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    let codes = &device.recovery;
    for typed in [
        codes[0].clone(),
        codes[1].to_uppercase(),
        codes[2].replace('-', " "),
        codes[3].replace('-', ""),
    ] {
        sign_in(&service, PASSWORD, json!(typed))
            .await
            .succeeds(200);
        sign_in(&service, PASSWORD, json!(typed))
            .await
            .fails(401, INVALID);
    }
    let output = service.operator("audit --account ada@first.test", "").await;
    let output = output.succeeds();
    assert!(
        output.contains("with a recovery code; 9 left") && output.contains("; 6 left"),
        "{output}"
    );

    let verb = "account two-factor ada@first.test recovery-codes";
    let new_codes = recovery(&service.operator(verb, "").await.succeeds());
    sign_in(&service, PASSWORD, json!(codes[4]))
        .await
        .fails(401, INVALID);
    sign_in(&service, PASSWORD, json!(new_codes[4]))
        .await
        .succeeds(200);
    // The device works as before.
    let code = device.code(&service, 0);
    sign_in(&service, PASSWORD, json!(code)).await.succeeds(200);
}

#[tokio::test]
async fn after_ten_wrong_codes_in_a_row_codes_are_refused_for_some_time() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    let right = || device.code(&service, 0);
    let wrong = async || {
        let near: Vec<String> = [-30, 0, 30].map(|at| device.code(&service, at)).into();
        let wrong = (0..4).map(|n| format!("00000{n}"));
        let wrong = wrong.into_iter().find(|code| !near.contains(code));
        let response = sign_in(&service, PASSWORD, json!(wrong.unwrap())).await;
        response.fails(401, INVALID);
    };
    for _ in 0..9 {
        wrong().await;
    }
    sign_in(&service, PASSWORD, json!(right()))
        .await
        .succeeds(200);
    service.clock.advance(Duration::from_secs(30));
    for _ in 0..10 {
        wrong().await;
    }
    sign_in(&service, PASSWORD, json!(right()))
        .await
        .fails(401, INVALID);
    // Refused attempts were not counted, so the time is still one minute.
    service.clock.advance(Duration::from_secs(59));
    sign_in(&service, PASSWORD, json!(right()))
        .await
        .fails(401, INVALID);
    service.clock.advance(Duration::from_secs(1));
    wrong().await;
    service.clock.advance(Duration::from_secs(119));
    sign_in(&service, PASSWORD, json!(right()))
        .await
        .fails(401, INVALID);
    sign_in(&service, PASSWORD, Value::Null)
        .await
        .fails(401, REQUIRED);
    // A recovery code is still accepted, and resets the count.
    sign_in(&service, PASSWORD, json!(device.recovery[0]))
        .await
        .succeeds(200);
    sign_in(&service, PASSWORD, json!(right()))
        .await
        .succeeds(200);

    let output = service.operator("audit --account ada@first.test", "").await;
    let output = output.succeeds();
    for words in [
        "wrong two-factor code, 10 in a row: codes are refused until",
        "wrong two-factor code, 11 in a row",
        "two-factor code refused, too many were wrong",
    ] {
        assert!(output.contains(words), "{words} in {output}");
    }
}

#[tokio::test]
async fn of_parallel_sign_ins_with_one_code_only_one_succeeds() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    for code in [device.code(&service, 0), device.recovery[0].clone()] {
        let contenders = (0..6).map(|_| sign_in(&service, PASSWORD, json!(code)));
        let responses = futures_util::future::join_all(contenders).await;
        let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401, 401, 401, 401, 401]);
    }
}

#[tokio::test]
async fn a_sign_in_that_fails_early_does_not_use_up_the_code() {
    let mut service = Service::with_own_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    let code = device.code(&service, 0);
    service.stack().stop_imap().await.unwrap();
    for code in [&code, &device.recovery[0]] {
        let response = sign_in(&service, PASSWORD, json!(code)).await;
        assert_eq!(response.status, 503);
    }
    sign_in(&service, PASSWORD, json!("000000x"))
        .await
        .fails(401, INVALID);
    service.stack().start_imap().await.unwrap();
    for code in [&code, &device.recovery[0]] {
        sign_in(&service, PASSWORD, json!(code)).await.succeeds(200);
    }
}

#[tokio::test]
async fn two_factor_secrets_survive_a_new_key_of_the_service() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    let file = service.state.join("latchmail.key");
    let earlier = std::fs::read_to_string(&file).unwrap();
    let newer = STANDARD.encode([7_u8; 32]);
    std::fs::write(&file, format!("{newer}\n{earlier}")).unwrap();
    service.restart().await;
    // The restart sealed the secret with the new key, so the earlier key can be removed.
    std::fs::write(&file, format!("{newer}\n")).unwrap();
    service.restart().await;
    let code = device.code(&service, 0);
    sign_in(&service, PASSWORD, json!(code)).await.succeeds(200);
}

#[tokio::test]
async fn every_failure_is_recorded_with_its_factor_and_without_secrets() {
    let log = Log::capture_at("trace");
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let device = Device::of(&ada).await;
    // The command uses the machine's time, so later codes must be newer.
    service.clock.advance(Duration::from_mins(10));
    let code = device.code(&service, 0);
    let wrong = if code == "000000" { "000001" } else { "000000" };
    for (password, typed, factor) in [
        ("Wrong-Horse-7", Value::Null, "wrong password"),
        (PASSWORD, Value::Null, "two-factor code missing"),
        (PASSWORD, json!(wrong), "wrong two-factor code"),
        (PASSWORD, json!("12"), "malformed two-factor code"),
        (
            PASSWORD,
            json!("aaaa-bbbb-cccc-dddd"),
            "wrong recovery code",
        ),
    ] {
        let response = sign_in(&service, password, typed).await;
        assert_eq!(response.status, 401);
        let last = service
            .operator("audit --limit 1 --json", "")
            .await
            .succeeds();
        let event: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(event["kind"], "sign_in_failed");
        assert_eq!(event["detail"], factor);
        assert_eq!(event["address"], "ada@first.test");
        assert_eq!(event["client"], "127.0.0.1");
        assert_eq!(
            event["requestId"].as_str(),
            response.header("x-request-id"),
            "{event}"
        );
    }
    sign_in(&service, PASSWORD, json!(code)).await.succeeds(200);
    sign_in(&service, PASSWORD, json!(code))
        .await
        .fails(401, INVALID);
    let recovery = &device.recovery[0];
    sign_in(&service, PASSWORD, json!(recovery))
        .await
        .succeeds(200);

    let mut output = service.operator("audit", "").await.succeeds();
    for verb in ["account list --json", "account show ada@first.test --json"] {
        output += &service.operator(verb, "").await.succeeds();
    }
    assert!(output.contains("two-factor code used before"), "{output}");
    let traced = log.lines_with("").join("\n");
    assert!(traced.contains("TRACE"), "the log is kept whole");
    for secret in [
        PASSWORD,
        "Wrong-Horse-7",
        &device.secret,
        recovery,
        &recovery.replace('-', ""),
        &format!("\"{code}\""),
    ] {
        assert!(!output.contains(secret), "{secret} in {output}");
        let line = traced.lines().find(|line| line.contains(secret));
        assert!(line.is_none(), "{secret} in {line:?}");
    }
}

#[tokio::test]
async fn routes_that_require_the_password_require_the_code_too() {
    let service = Service::with_mail().await;
    let (ada, _bob) = (service.person("ada").await, service.person("bob").await);
    let teams = ada.send("GET /api/v1/teams").await.succeeds(200);
    let team = teams["teams"][0]["id"].as_str().unwrap();
    let invitations = format!("/api/v1/teams/{team}/invitations");
    let device = Device::of(&ada).await;
    let with = |mut body: Value, code: Value| {
        body["code"] = code;
        body
    };
    let invitation = json!({
        "username": "bob", "password": PASSWORD, "resource_kind": "mailbox", "resource_id": null,
        "resource_label": null, "rights": ["mail:read"],
    });
    let change = json!({ "current_password": PASSWORD, "new_password": "Another-Horse-9" });
    for (path, body, status, wrong) in [
        (&*invitations, &invitation, 403, "Wrong password"),
        (
            "/api/v1/profile/password",
            &change,
            401,
            "Current password is incorrect",
        ),
    ] {
        ada.post(path, body).await.fails(401, REQUIRED);
        for code in ["000000x", "1234567", &device.code(&service, 3600)] {
            let response = ada.post(path, &with(body.clone(), json!(code))).await;
            response.fails(status, wrong);
        }
    }
    // Each code works once, for any purpose.
    let code = json!(device.code(&service, 0));
    let invited = ada
        .post(&invitations, &with(invitation, code.clone()))
        .await;
    invited.succeeds(201);
    let used = ada
        .post("/api/v1/profile/password", &with(change.clone(), code))
        .await;
    used.fails(401, "Current password is incorrect");
    let recovery = json!(device.recovery[0]);
    let changed = ada
        .post("/api/v1/profile/password", &with(change, recovery))
        .await;
    changed.succeeds(200);
}
