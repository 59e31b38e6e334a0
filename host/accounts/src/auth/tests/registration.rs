//! Tests of registration, the availability of user names, and accounts that the operator creates.

use super::*;

#[tokio::test]
async fn who_registers_is_signed_in() {
    let stage = Stage::new().await;
    let curl = Origin {
        user_agent: Some("curl/8.16.0".into()),
        ..Origin::default()
    };
    let registered = stage
        .auth
        .registration
        .register(form("Ada.L"), &curl)
        .await
        .unwrap();
    assert_eq!(registered.first_name, "Ada");
    assert_eq!(registered.signed_in.address, "ada.l@a.example");
    assert!(!registered.signed_in.admin);
    let caller = stage.caller(&registered.signed_in.tokens).await.unwrap();
    assert_eq!(caller.address, "ada.l@a.example");
    assert_eq!(caller.mail.username, "ada.l@a.example");
    assert_eq!(password(&caller).len(), 32);
    assert!(matches!(caller.credential, Credential::Session { .. }));
    assert_eq!(
        stage.texts("SELECT secret_hash FROM app_passwords").await,
        [secrets::sha256_hex(password(&caller))]
    );
    assert_eq!(
        stage.texts("SELECT label FROM app_passwords").await,
        ["curl"]
    );
}

#[tokio::test]
async fn an_address_is_registered_once_in_whatever_case() {
    let stage = Stage::new().await;
    stage.register("ada").await;
    let taken = answer(Kind::Conflict, "This email address is already taken");
    assert_eq!(
        refused(
            stage
                .auth
                .registration
                .register(form("ADA"), &Origin::default())
                .await
        ),
        taken
    );
    let elsewhere = Form {
        domain: "B.Example".into(),
        ..form("ada")
    };
    let registered = stage
        .auth
        .registration
        .register(elsewhere, &Origin::default())
        .await
        .unwrap();
    assert_eq!(registered.signed_in.address, "ada@b.example");
}

#[tokio::test]
async fn the_first_field_that_will_not_do_is_named() {
    let stage = Stage::new().await;
    let bad = || Form {
        local_part: "x".into(),
        domain: "other.example".into(),
        password: "weak".into(),
        first_name: String::new(),
        last_name: "x".repeat(65),
        dob: "tomorrow".into(),
    };
    let named = |local_part: &str| Form {
        local_part: local_part.into(),
        ..bad()
    };
    for (form, text) in [
        (bad(), "Username must be at least 2 characters"),
        (
            named("ada"),
            "domain must be one of the registration domains: a.example, b.example",
        ),
        (
            Form {
                domain: "a.example".into(),
                ..named("ada")
            },
            "password must be at least 8 characters",
        ),
        (
            Form {
                first_name: String::new(),
                ..form("ada")
            },
            "first_name must be 1 to 64 characters",
        ),
        (
            Form {
                last_name: "x".repeat(65),
                ..form("ada")
            },
            "last_name must be 1 to 64 characters",
        ),
        (
            Form {
                dob: "2026-11-20".into(),
                ..form("ada")
            },
            "dob must be at least 13 years ago",
        ),
    ] {
        assert_eq!(
            refused(
                stage
                    .auth
                    .registration
                    .register(form, &Origin::default())
                    .await
            ),
            answer(Kind::Invalid, text)
        );
    }
    assert!(stage.texts("SELECT address FROM accounts").await.is_empty());
}

#[tokio::test]
async fn availability_tells_what_registration_would() {
    let mut stage = Stage::new().await;
    stage.register("ada").await;
    let unavailable = |reason| Availability::Unavailable { reason };
    let available = Availability::Available {
        address: "grace.h@a.example".into(),
    };
    for (name, expected) in [
        ("Grace.H", available),
        ("ADA", unavailable("This email address is already taken")),
        ("g", unavailable("Username must be at least 2 characters")),
        ("postmaster", unavailable("Username is reserved")),
    ] {
        assert_eq!(
            stage.auth.registration.availability(name).await.unwrap(),
            expected,
            "{name}"
        );
    }
    stage.again("enabled = false").await;
    let closed = "Registration is currently disabled";
    assert_eq!(
        stage.auth.registration.availability("grace").await.unwrap(),
        unavailable(closed)
    );
    assert_eq!(
        refused(
            stage
                .auth
                .registration
                .register(form("grace"), &Origin::default())
                .await
        ),
        answer(Kind::Forbidden, closed)
    );
}

#[tokio::test]
async fn the_operators_account_is_made_once_and_never_changed() {
    let stage = Stage::new().await;
    let create = async |address: &str, password: &str| {
        stage
            .auth
            .registration
            .create_account(address, password.into())
            .await
    };
    assert_eq!(
        create("Postmaster@A.example", "demo").await.unwrap(),
        Provision::Created
    );
    assert_eq!(
        create("postmaster@a.example", "demo").await.unwrap(),
        Provision::Exists
    );
    assert_eq!(
        create("postmaster@a.example", "other").await.unwrap(),
        Provision::Differs
    );
    assert!(stage.sign_in("postmaster@a.example", "demo").await.is_ok());
    stage
        .execute("INSERT INTO addresses (address, kind) VALUES ('held@a.example', 'held')")
        .await;
    assert_eq!(
        create("held@a.example", "demo").await.unwrap(),
        Provision::AddressTaken
    );
    for (address, password) in [
        ("postmaster", "demo"),
        ("demo@other.example", "demo"),
        ("demo@a.example", ""),
    ] {
        let (kind, _) = refused(create(address, password).await);
        assert_eq!(kind, Kind::Invalid, "{address}");
    }
}
