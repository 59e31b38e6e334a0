//! Runs every block of the pages for authors of modules, in the order of each page.
//!
//! The `toml` blocks are a part of the configuration of the service. The `sh` blocks run in one
//! shell, in a folder in which the program is where `./just run` builds it. The service of the test
//! replaces `./just run`. Blocks of other kinds are refused, because no test would run them.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use latchmail_tests::{PASSWORD, ProgramOutput, Service, Setup, cache, program};
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

impl Blocks {
    fn of(page: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../docs")
            .join(page);
        let text = fs::read_to_string(file).unwrap();
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
