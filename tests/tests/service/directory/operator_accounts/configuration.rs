//! The configuration and the key file that a command uses.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use latchmail_tests::{
    ProgramOutput, Response, Service, TEST_TIMEOUT, cache, modules, program, wait_until,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{LOGIN, run_command};

#[tokio::test]
async fn without_a_configuration_a_command_names_the_missing_argument() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    command
        .env_clear()
        .current_dir(&folder)
        .args(["account", "list"]);
    let output = ProgramOutput::of(&mut command, "").await;
    output.fails_mentioning("--config FILE");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let mut command = Command::new(program());
    command
        .env_clear()
        .current_dir(&folder)
        .env("LATCHMAIL_CONFIG", "missing.toml")
        .arg("audit");
    ProgramOutput::of(&mut command, "")
        .await
        .fails_mentioning("missing.toml");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[tokio::test]
async fn the_configuration_is_named_after_the_command_or_the_error_says_so() {
    let service = Service::start().await;
    service.person("ada").await;
    let config = service.operator_config();
    let config = config.to_str().unwrap();
    let joined = format!("--config={config}");
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.env_clear().args(arguments);
        ProgramOutput::of(&mut command, "").await
    };
    for arguments in [
        ["account", "list", "--config", config].as_slice(),
        &["account", "--config", config, "list"],
        &["account", "list", &joined],
        &["audit", "--config", config],
    ] {
        let output = run(arguments).await.succeeds();
        assert!(output.contains("ada@first.test"), "{output}");
    }
    for arguments in [
        ["--config", config, "account", "list"].as_slice(),
        &[&joined, "account", "list"],
    ] {
        let output = run(arguments).await;
        assert_eq!(output.status, 2, "{output:?}");
        assert!(
            output.stderr.contains("must follow the command"),
            "{output:?}"
        );
    }
    for arguments in [["help", "account"], ["account", "--help"]] {
        let output = run(&arguments).await.succeeds();
        for part in ["two-factor", "--config <FILE>", "Create, show and change"] {
            assert!(output.contains(part), "{part} in {output}");
        }
        let widest = output.lines().map(|line| line.chars().count()).max();
        assert!(widest < Some(180), "{output}");
    }
}

#[tokio::test]
async fn a_configuration_that_other_users_can_write_is_refused() {
    let service = Service::start().await;
    service.person("ada").await;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join(".latchmail");
    std::fs::create_dir(&state).unwrap();
    std::fs::copy(service.operator_config(), state.join("latchmail.toml")).unwrap();
    let listed = async |mode| {
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(program());
        command
            .env_clear()
            .current_dir(&folder)
            .args(["account", "list"]);
        ProgramOutput::of(&mut command, "").await
    };
    listed(0o777)
        .await
        .fails_mentioning("other users can write to it");
    let output = listed(0o755).await.succeeds();
    assert!(output.contains("ada@first.test"), "{output}");
}

#[tokio::test]
async fn enabling_two_factor_does_not_create_a_key_file() {
    let service = Service::start().await;
    service.person("ada").await;
    let key = service.state.join("latchmail.key");
    let aside = service.state.join("aside.key");
    std::fs::rename(&key, &aside).unwrap();
    let verb = "account two-factor ada@first.test on";
    service
        .operator(verb, "")
        .await
        .fails_mentioning("latchmail.key");
    assert!(!key.exists());
    std::fs::rename(&aside, &key).unwrap();
    run_command(&service, verb).await;
}

/// The commands find the configuration in the state folder of `latchmail dev`, while it runs and
/// afterwards.
#[tokio::test]
async fn a_command_finds_the_state_of_latchmail_dev() {
    let folder = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
    let verb = async |arguments: &str| {
        let mut command = Command::new(program());
        command
            .env_clear()
            .env("LATCHMAIL_STATE", folder.path())
            .args(arguments.split(' '));
        ProgramOutput::of(&mut command, "").await
    };
    let (dev, run) = start_dev(folder.path()).await;
    let kept = folder.path().join("latchmail.toml");
    let mode = std::fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listen = run["baseUrl"].as_str().unwrap().replace("http://", "");
    assert!(read(&kept).contains(&format!("listen = \"{listen}\"")));
    verb("account two-factor demo@latchmail.test on")
        .await
        .succeeds();
    let demo = json!({ "email": run["demo"]["email"], "password": run["demo"]["password"] });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{listen}{LOGIN}");
    Response::of(client.post(url).json(&demo))
        .await
        .fails(401, "Two-factor code required");

    stop_dev(dev).await;
    let shown = verb("account show demo@latchmail.test").await.succeeds();
    assert!(shown.contains("two-factor    on"), "{shown}");
}

/// A second start with the same state folder keeps the accounts and their secrets.
#[tokio::test]
async fn a_second_start_of_latchmail_dev_prints_the_same_credentials() {
    let folder = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
    let credentials = async || {
        let (dev, run) = start_dev(folder.path()).await;
        let log = folder.path().join("dev.log");
        wait_until("the examples are printed", async || {
            read(&log).contains("Press Ctrl-C to stop.")
        })
        .await;
        stop_dev(dev).await;
        let printed = read(&log);
        let line = printed
            .lines()
            .find(|line| line.starts_with("Administrator: "))
            .unwrap();
        // The current code differs from start to start.
        let (before, rest) = line.split_once("two-factor code now: ").unwrap();
        let (_, secret) = rest.split_once(", ").unwrap();
        (run["demo"].clone(), before.to_owned(), secret.to_owned())
    };
    assert_eq!(credentials().await, credentials().await);
}

/// Starts `latchmail dev` with the state folder `state` and waits until it is ready. Returns the
/// process and the content of run.json.
async fn start_dev(state: &Path) -> (Child, Value) {
    let log = state.join("dev.log");
    let output = std::fs::File::create(&log).unwrap();
    let mut dev = Command::new(program())
        .arg("dev")
        .env("LATCHMAIL_STATE", state)
        .env("LATCHMAIL_MODULES", modules())
        .env("LATCHMAIL_CACHE_DIR", cache())
        .env("LATCHMAIL_LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let run = state.join("run.json");
    // It starts mail servers first.
    let deadline = tokio::time::Instant::now() + 6 * TEST_TIMEOUT;
    while !run.exists() {
        let waited = tokio::time::Instant::now() < deadline && dev.try_wait().unwrap().is_none();
        assert!(waited, "{}", read(&log));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (dev, serde_json::from_str(&read(&run)).unwrap())
}

/// Stops `latchmail dev` with SIGTERM.
async fn stop_dev(mut dev: Child) {
    let pid = i32::try_from(dev.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(dev.wait().await.unwrap().success());
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}
