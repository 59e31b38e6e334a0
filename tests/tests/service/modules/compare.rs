//! The comparison of a new version of a module with the serving version.

use std::path::{Path, PathBuf};

use latchmail_tests::{
    Person, Planted, ProgramOutput, RICH_MESSAGE, Service, Setup, fixtures, modules,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Starts a service with the module `planted`, for a person with a message that has an attachment.
async fn start() -> Service {
    let settings = "modules.planted.grants = ['caller', 'mailbox', 'store']\n\
        modules.planted.paths = ['/planted/']\nmodules.planted.cpu = 1\n";
    let service = Setup::default().with_mail().with(settings).start().await;
    service.install(&[Planted("nothing").component()]).await;
    service
}

/// Writes the version with a difference to a file.
fn version(folder: &TempDir, does: &str) -> PathBuf {
    let file = folder.path().join("new.wasm");
    std::fs::write(&file, Planted(does).component()).unwrap();
    file
}

/// Compares a file with the serving version of a module, while a person sends these requests again
/// and again.
async fn compare(
    ada: &Person<'_>,
    (module, file): (&str, &Path),
    requests: u32,
    lines: &[String],
) -> ProgramOutput {
    let file = file.display();
    let line =
        format!("module compare {module} {file} --requests {requests} --seconds 3600 --json");
    let compared = ada.service.operator(&line, "");
    tokio::pin!(compared);
    let mut lines = lines.iter().cycle();
    loop {
        let line = lines.next().unwrap();
        tokio::select! {
            output = &mut compared => return output,
            response = ada.send(line) => assert!(response.status < 300, "{}", response.json),
        }
    }
}

/// Returns the result of a comparison, and each difference as `place: text`.
fn differences(output: &ProgramOutput) -> (Value, Vec<String>) {
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    let listed = found["differences"].as_array().unwrap().iter();
    let line = |one: &Value| {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        format!("{}: {}", text("place"), text("difference"))
    };
    let lines = listed.map(line).collect();
    (found, lines)
}

/// Returns the requests to the module `planted`.
async fn requests(ada: &Person<'_>) -> Vec<String> {
    ada.receive(RICH_MESSAGE).await;
    let uid = ada.uids("INBOX").await[0];
    vec![
        "GET /planted/report".into(),
        format!("GET /planted/files/{uid}"),
        "HEAD /planted/report".into(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_planted_difference_is_found() {
    let service = start().await;
    let ada = service.person("ada").await;
    let requests = requests(&ada).await;
    let folder = tempfile::tempdir().unwrap();
    let encoding = "body: equal fields in other bytes";
    for (does, expected) in [
        ("status", "status: 200, now 203"),
        ("header", "header etag: another value"),
        ("no header", "header etag: missing"),
        ("new header", "header retry-after: new"),
        ("media type", "header content-type: another value"),
        ("no field", "inner.text: missing, was string of 1"),
        ("new field", "more: new, string of 4"),
        ("value", "inner.text: another string of 1"),
        ("length of text", "inner.text: string of 1, now string of 2"),
        ("type", "number: number, now string of 1"),
        ("null", "flag: boolean, now null"),
        ("not null", "nothing: null, now array of 0"),
        ("order", "tags: equal elements in another order"),
        ("length", "tags: array of 3, now array of 2"),
        ("element", "tags[]: another string of 1"),
        ("escape", encoding),
        ("newline", encoding),
        ("field order", encoding),
        (
            "other call",
            "calls mailbox.list-folders: which the current version does not call",
        ),
        (
            "more calls",
            "calls mailbox.get-quota: with other arguments or more often",
        ),
        (
            "arguments",
            "calls store.get: with other arguments or more often",
        ),
        (
            "write",
            "calls store.set: which the current version does not call",
        ),
        (
            "fewer calls",
            "calls mailbox.get-quota: less often than the current version",
        ),
        ("trap", "response: it traps"),
        ("spin", "response: it exceeded its CPU time of 1 s"),
        ("invalid", "response: it returns an invalid response"),
        (
            "slice",
            "body: 8 bytes, now 3 bytes, different after 3 bytes",
        ),
        ("route", "route: missing"),
        (
            "callers",
            "callers: web sessions, now web sessions and tokens with mail:read",
        ),
    ] {
        let file = version(&folder, does);
        let output = compare(&ada, ("planted", &file), 3, &requests).await;
        let (found, lines) = differences(&output);
        assert_eq!(output.status, 1, "{does}: {output:?}");
        assert!(output.stderr.contains("responses differ"), "{output:?}");
        assert!(
            lines.iter().any(|line| line.starts_with(expected)),
            "{does}: {found}"
        );
        assert!(lines.len() == 1 || does == "callers", "{does}: {found}");
        for secret in ["Rich", "ada@", "PDF"] {
            assert!(!output.stdout.contains(secret), "{does}: {found}");
        }
    }
    // No version was installed, and nothing was written.
    let report = ada.send("GET /planted/report").await.succeeds(200);
    assert_eq!(report["note"], Value::Null);
    let audit = service.operator("audit", "").await.succeeds();
    assert!(audit.contains("module_compared"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_build_and_a_renamed_segment_make_no_difference() {
    let service = start().await;
    let ada = service.person("ada").await;
    let requests = requests(&ada).await;
    let folder = tempfile::tempdir().unwrap();
    for does in ["nothing", "segment"] {
        let file = version(&folder, does);
        let output = compare(&ada, ("planted", &file), 60, &requests).await;
        let (found, lines) = differences(&output);
        assert_eq!((output.status, lines.len()), (0, 0), "{output:?}");
        let counts = ["compared", "different", "notRepeatable"].map(|key| &found[key]);
        assert_eq!(counts, [&json!(60), &json!(0), &json!(0)]);
        // The time is the same in all replays, and the random number is not.
        let unstable = found["unstable"].as_array().unwrap();
        let places: Vec<_> = unstable.iter().map(|one| one["place"].as_str()).collect();
        assert_eq!(places, [Some("random")]);
    }
}

/// Compares the mail routes with the same build, in this number of requests.
async fn compare_mail_routes(requests: u32) {
    let service = start().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    let uid = ada.uids("INBOX").await[0];
    let paths = [
        "folders",
        "quota",
        "folders/INBOX/messages",
        &format!("messages/{uid}"),
        &format!("messages/{uid}?headers=all"),
        &format!("messages/{uid}/raw"),
        &format!("messages/{uid}/attachments/0"),
        &format!("messages?uids={uid},1&view=detail"),
        "changes",
        "drafts",
        "outbox",
    ];
    let lines: Vec<String> = paths
        .iter()
        .map(|path| format!("GET /api/v1/mail/{path}"))
        .collect();
    let mail = modules().join("latchmail_mail.wasm");
    let output = compare(&ada, ("mail", &mail), requests, &lines).await;
    let (found, lines) = differences(&output);
    assert_eq!((output.status, lines.len()), (0, 0), "{output:?}");
    assert_eq!(
        (
            &found["compared"],
            &found["notRepeatable"],
            &found["unstable"]
        ),
        (&json!(requests), &json!(0), &json!([]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_build_of_the_mail_routes_makes_no_difference() {
    compare_mail_routes(110).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_needs_a_version_of_a_serving_module_and_requests() {
    let service = start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = version(&folder, "nothing");
    let run = async |line: String| service.operator(&line, "").await;
    let file = file.display();
    let other = fixtures().join("fixture_variant.wasm");
    run(format!("module compare planted {}", other.display()))
        .await
        .fails_mentioning("not of `planted`");
    run(format!("module compare missing {file}"))
        .await
        .fails_mentioning("no module `missing`");
    let idle = run(format!("module compare planted {file} --seconds 1")).await;
    assert_eq!(idle.status, 1);
    assert!(idle.stderr.contains("no request was compared"), "{idle:?}");
    service
        .operator("module disable planted", "")
        .await
        .succeeds();
    run(format!("module compare planted {file}"))
        .await
        .fails_mentioning("not serving");
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_components_and_modules_with_only_handlers_are_not_compared() {
    let settings = "modules.fixture-alone.grants = ['mailbox']\nmodules.spin.paths = ['/spin']";
    let service = Service::with(settings).await;
    for (name, file, mount) in [
        ("fixture-alone", "fixture_alone.wasm", ""),
        ("spin", "fixture_spin.wasm", "spin --http /spin "),
    ] {
        let file = fixtures().join(file);
        let file = file.display();
        let install = format!("module install --yes {mount}{file}");
        service.operator(&install, "").await.succeeds();
        let compare = format!("module compare {name} {file}");
        let refused = service.operator(&compare, "").await;
        refused.fails_mentioning("is a standard component or has only handlers");
    }
}

mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn the_same_build_makes_no_difference_in_fifty_thousand_requests() {
        compare_mail_routes(50_000).await;
    }
}
