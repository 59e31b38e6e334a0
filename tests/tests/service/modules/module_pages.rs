//! Runs every block of the pages for authors of modules, in the order of each page.
//!
//! The `toml` blocks are a part of the configuration of the service. The `sh` blocks run in one
//! shell, in a folder in which the program is where `./just run` builds it. The service of the test
//! replaces `./just run`. Blocks of other kinds are refused, because no test would run them.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use latchmail_tests::{
    DockerRegistry, PASSWORD, ProgramOutput, Service, Setup, cache, examples, program,
};
use serde_json::json;
use tokio::process::Command;

/// The commands of the shell before the blocks. With this option, curl fails if the response has an
/// error status.
const PREFIX: &str = "curl() { command curl --fail-with-body \"$@\"; }\n";

/// The blocks of a page.
#[derive(Default)]
struct Blocks {
    /// The commands of all `sh` blocks.
    commands: String,
    /// The settings of all `toml` blocks, in dotted form.
    settings: String,
}

/// Returns the text of a page.
fn read(page: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    fs::read_to_string(docs.join(page)).unwrap()
}

impl Blocks {
    fn of(page: &str) -> Self {
        let text = read(page);
        let mut blocks = Self::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            match language {
                "sh" if block == ["./just run"] => {}
                "sh" => blocks.commands += &(block.join("\n") + "\n"),
                "toml" => blocks.settings += &dotted(&block),
                _ => panic!("{page} has a block that no test runs: {line}"),
            }
        }
        blocks
    }
}

/// Returns the settings of a TOML text with sections in dotted form.
fn dotted(lines: &[&str]) -> String {
    let mut settings = String::new();
    let mut section = "";
    for line in lines.iter().filter(|line| !line.is_empty()) {
        match line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            Some(name) => section = name,
            None => writeln!(settings, "{section}.{line}").unwrap(),
        }
    }
    settings
}

/// Creates an empty folder for the projects of a page. It has the same path in each run, so that
/// the builds do not need more and more space.
fn folder(page: &str) -> PathBuf {
    let folder = projects().join("pages").join(page);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the folder in which `scripts/build-project` has built the dependencies of projects.
fn projects() -> PathBuf {
    cache().with_file_name("project")
}

/// Writes the files that `./just run` would write: the program, which uses the configuration of
/// this service, and `run.json`.
fn write_files(folder: &Path, service: &Service, address: &str) {
    let programs = folder.join("target/debug");
    fs::create_dir_all(&programs).unwrap();
    let latchmail = programs.join("latchmail");
    let (program, config) = (program(), service.operator_config());
    let script = format!(
        "#!/bin/sh\n[ \"$2\" = new ] && exec '{program}' \"$@\"\nexec '{program}' \"$@\" --config '{config}'\n",
        program = program.display(),
        config = config.display()
    );
    fs::write(&latchmail, script).unwrap();
    fs::set_permissions(&latchmail, Permissions::from_mode(0o755)).unwrap();
    let state = folder.join(".latchmail");
    fs::create_dir(&state).unwrap();
    let smtp = service.mail().smtp.to_string();
    let run = json!({
        "baseUrl": service.base, "smtp": smtp, "email": address, "password": PASSWORD,
    });
    let run = serde_json::to_string_pretty(&run).unwrap();
    fs::write(state.join("run.json"), run).unwrap();
}

/// Runs all blocks of a page. Returns the output of the commands.
async fn follow(page: &str) -> String {
    let blocks = Blocks::of(page);
    let setup = Setup::default().with_mail().with(&blocks.settings);
    let mut service = setup.without_notices().start().await;
    // A process of its own has a clock that moves, for timers.
    let _process = service.restart_in_process().await;
    let ada = service.person("ada").await;
    let folder = folder(page);
    write_files(&folder, &service, &ada.address);
    let mut command = Command::new("bash");
    let commands = format!("{PREFIX}{}", blocks.commands);
    command.args(["-euo", "pipefail", "-c", &commands]);
    command.current_dir(&folder);
    // The dependencies are built already, with the same settings.
    command
        .env_remove("CARGO_TARGET_DIR")
        .env("CARGO_BUILD_BUILD_DIR", projects().join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0");
    let output = ProgramOutput::of(&mut command, "").await;
    assert_eq!(output.status, 0, "{}\n{}", output.stdout, output.stderr);
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ten_minutes_lead_to_a_module_that_stores_notes() {
    let printed = follow("modules.md").await;
    for expected in [
        "{\"hello\":\"ada@first.test\"}",
        "{\"notes\":[{\"id\":1,\"text\":\"milk\"}]}",
        "\"operationId\":\"deleteNote\"",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_handlers_leads_to_a_module_that_moves_newsletters() {
    let printed = follow("handlers.md").await;
    assert!(printed.contains("[news] May"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_timers_leads_to_a_module_that_counts_messages() {
    let printed = follow("timers.md").await;
    assert!(printed.contains("unread messages: 0"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_tests_leads_to_tests_that_pass() {
    let printed = follow("module-tests.md").await;
    assert!(
        printed.contains("a_token_needs_the_scope ... ok"),
        "{printed}"
    );
}

#[test]
fn the_pages_about_routes_and_languages_have_no_blocks() {
    for page in ["module-routes.md", "module-languages.md"] {
        let blocks = Blocks::of(page);
        assert_eq!((&*blocks.commands, &*blocks.settings), ("", ""), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_registries_leads_to_a_module_that_is_upgraded() {
    let registry = DockerRegistry::start().await;
    let section = "modules.rules.grants = ['mailbox']\nmodules.rules.scopes = ['mail:read']\n";
    let service = Service::with(&(registry.settings() + section)).await;
    let reference = registry.reference("1.0.0");
    let server = reference.split('/').nth(2).unwrap();
    let component = service.state.join("rules.wasm");
    let page = read("registry.md");
    let blocks = page.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
    let replace = |line: &str| {
        line.replace("registry.example.com", server)
            .replace("rules.wasm", component.to_str().unwrap())
    };
    // The page shows the installation before the publication.
    let (publish, consume): (Vec<String>, Vec<String>) = lines
        .map(replace)
        .partition(|line| line.contains(" push ") || line.starts_with("cosign"));
    let run = async |line: &str, more: &[&str]| {
        let arguments = line.strip_prefix("latchmail ").unwrap().split(' ');
        let arguments: Vec<&str> = arguments.chain(more.iter().copied()).collect();
        let output = service.operator_with_all_settings(&arguments, &[]).await;
        output.succeeds()
    };
    let push = async |version: &str| {
        let pushed = run(&publish[0].replace("1.0.0", version), &[]).await;
        registry.sign(pushed.trim().strip_prefix("pushed ").unwrap());
    };
    assert!(publish[1].starts_with("cosign sign --key"), "{publish:?}");
    let mut bytes = fs::read(examples().join("latchmail_rules.wasm")).unwrap();
    fs::write(&component, &bytes).unwrap();
    push("1.0.0").await;
    let [inspect, install, plan, upgrade] = &consume[..] else {
        panic!("the page has other commands: {consume:?}");
    };
    run(inspect, &[]).await;
    let installed = run(install, &["--yes"]).await;
    assert!(installed.contains("rules 0.0.0 is serving"), "{installed}");
    let current = run(plan, &[]).await;
    assert!(current.contains("up to date"), "{current}");
    // A custom section without content makes another artifact.
    bytes.extend([0, 2, 1, b'x']);
    fs::write(&component, &bytes).unwrap();
    push("1.1.0").await;
    let newest = run(plan, &[]).await;
    assert!(newest.contains(":1.1.0@sha256:"), "{newest}");
    let upgraded = run(upgrade, &["--yes"]).await;
    assert!(upgraded.contains(":1.1.0@sha256:"), "{upgraded}");
}
