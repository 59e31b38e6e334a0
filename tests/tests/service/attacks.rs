//! Runs the scripts of `tests/attacks` against a service that withstands them.

use std::path::Path;

use latchmail_tests::{PASSWORD, Person, ProgramOutput, Service, Setup, fixtures};
use tokio::process::Command;

/// Runs a script with these arguments after `--url`, and all passwords that it may need.
async fn attack(service: &Service, script: &str, arguments: &[&str]) {
    let passwords = ["ATTACKER", "VICTIM", "ACCOUNT", "OWNER", "MEMBER"];
    let passwords = passwords.map(|who| (who, PASSWORD));
    let arguments = [&["--url", &*service.base][..], arguments].concat();
    assert_withstands(script, &arguments, &passwords).await;
}

/// Runs a script and expects that the service withstands it. Each password has the name of its
/// owner.
async fn assert_withstands(script: &str, arguments: &[&str], passwords: &[(&str, &str)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks");
    let mut command = Command::new("python3");
    // Without `-B`, scripts would write caches into the source tree.
    command.arg("-B").arg(folder.join(script)).args(arguments);
    for (who, password) in passwords {
        command.env(format!("{who}_PASSWORD"), password);
    }
    let output = ProgramOutput::of(&mut command, "").await;
    assert_eq!(output.status, 0, "{script}: {output:?}");
    assert!(
        output.stdout.ends_with("withstood\n"),
        "{script}: {output:?}"
    );
}

/// Starts a service whose base URL is its own address, with the modules that attack.
async fn service() -> Service {
    let module = |name: &str, grants: &str| {
        format!(
            "modules.{name}.source = '{}'\nmodules.{name}.grants = [{grants}]\nmodules.{name}.paths = ['/{name}/']\nmodules.{name}.active_content = true\n",
            fixtures().join(format!("fixture_{name}.wasm")).display()
        )
    };
    Setup::default()
        .with_mail()
        .with_default_limits()
        .with("base_url = ''\nhttp.body_memory = 96\nlimits.registration = 100\nlimits.mail = 1000\nlimits.sign_in = 1000")
        .with(&(module("hostile", "'caller'") + &module("guesser", "'profile', 'teams'")))
        .start()
        .await
}

async fn deliver_message(person: &Person<'_>) {
    let message = format!(
        "From: Grace <grace@outside.test>\r\nTo: {}\r\nSubject: Secret\r\n\r\nA secret.\r\n",
        person.address
    );
    person.receive(&message).await;
    person.wait_for_message("Secret").await;
}

#[tokio::test]
async fn the_service_withstands_the_scripted_attacks() {
    let service = service().await;
    let (ada, mallory) = (service.person("ada").await, service.person("mallory").await);
    deliver_message(&ada).await;
    for path in ["/hostile/page", "/hostile/script"] {
        attack(&service, "module_origin.py", &["--path", path]).await;
    }
    let accounts = ["--attacker", &*mallory.address, "--victim", &ada.address];
    // Other tests use the machine at the same time, so the times mean nothing here.
    let once = ["--runs", "1", "--requests", "5", "--ratio", "inf"];
    let arguments: Vec<&str> = accounts.into_iter().chain(once).collect();
    attack(&service, "slow_bodies.py", &arguments).await;
    let victim = ["--victim", &*ada.address];
    let two = ["--from", "127.0.0.2,127.0.0.3", "--seconds", "1"];
    let small_bodies = [&victim[..], &two].concat();
    attack(&service, "slow_small_bodies.py", &small_bodies).await;
    let few = ["--attempts", "200", "--seconds", "5"];
    let abandoned = [&victim[..], &few].concat();
    attack(&service, "abandoned_sign_ins.py", &abandoned).await;
    let members = ["--owner", &*ada.address, "--member", &mallory.address];
    attack(&service, "write_without_read.py", &members).await;
    let from = ["--from", "127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5"];
    let owner = ["--account", &*ada.address];
    attack(&service, "lock_out.py", &[owner, from].concat()).await;
    let guesses = ["--module-path", "/guesser/guess"];
    attack(&service, "password_guesses.py", &[owner, guesses].concat()).await;
}

#[tokio::test]
async fn the_memory_for_listings_is_limited() {
    let service = Setup::default()
        .with_mail()
        .with("base_url = ''")
        .start()
        .await;
    let ada = service.person("ada").await;
    let arguments = [
        ("--messages", "32"),
        ("--most", "50"),
        ("--account", &*ada.address),
        ("--smtp", &service.mail().smtp.to_string()),
        // The service runs in the process of its test.
        ("--pid", &std::process::id().to_string()),
    ];
    let arguments: Vec<&str> = arguments.iter().flat_map(|(k, v)| [*k, *v]).collect();
    attack(&service, "listing_memory.py", &arguments).await;
}

#[tokio::test]
async fn senders_cannot_be_forged() {
    let service = Service::with_mail().await;
    let (ada, mallory) = (service.person("ada").await, service.person("mallory").await);
    let app_password = mallory.app_password("phone").await;
    let mail = service.mail();
    let (smtp, submission) = (mail.smtp.to_string(), mail.submission.to_string());
    let arguments = [
        ("--smtp", &*smtp),
        ("--recipient", &*ada.address),
        ("--victim", &*ada.address),
        ("--submission", &*submission),
        ("--account", &*mallory.address),
    ];
    let arguments: Vec<&str> = arguments.iter().flat_map(|(k, v)| [*k, *v]).collect();
    let password = app_password["password"].as_str().unwrap();
    assert_withstands("forged_senders.py", &arguments, &[("APP", password)]).await;
}
