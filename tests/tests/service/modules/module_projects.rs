//! Projects that `latchmail module new` creates outside the repository: each is tested, built,
//! installed and called as its own README says.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use latchmail_tests::{ProgramOutput, program, tools_folder};
use tokio::process::Command;

const NAME: &str = "first-try";

/// Creates a project in `folder`.
pub(super) async fn create(folder: &Path, language: &str) -> PathBuf {
    let mut command = Command::new(program());
    let arguments = ["module", "new", NAME, "--language", language];
    command.current_dir(folder).args(arguments);
    ProgramOutput::of(&mut command, "").await.succeeds();
    folder.join(NAME)
}

/// Returns the blocks of commands in a project's README.
fn blocks(project: &Path) -> Vec<String> {
    let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
    let blocks = readme.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

/// Makes the tools of the tests available to a project in Python, which would download them
/// otherwise.
pub(super) fn use_python(project: &Path) {
    symlink(tools_folder().join("guests"), project.join(".venv")).unwrap();
}

/// Runs commands in a project, with the Node.js that the tests have installed. Returns the output.
pub(super) async fn run(project: &Path, commands: &str, bin: &Path) -> String {
    let node = tools_folder().join("guests/bin");
    let path = [bin, &node].map(|folder| folder.display().to_string());
    let path = format!("{}:{}", path.join(":"), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", commands]);
    command.current_dir(project).env("PATH", path);
    command.env_remove("CARGO_TARGET_DIR");
    let output = ProgramOutput::of(&mut command, "").await;
    assert_eq!(
        output.status, 0,
        "{commands}\n{}\n{}",
        output.stdout, output.stderr
    );
    output.stdout
}

#[tokio::test]
async fn the_tests_of_a_new_project_pass() {
    // The tests of the Rust project run where the project is built (scripts/build-project).
    for (language, test) in [
        ("javascript", "npm test\n"),
        ("python", ".venv/bin/python -m unittest\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), language).await;
        assert!(blocks(&project)[0].contains(test), "{language}");
        if language == "python" {
            use_python(&project);
        }
        run(&project, test, &project).await;
    }
}

mod long {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use latchmail_tests::{Service, cache};
    use serde_json::json;

    use super::*;

    /// Follows the README of a new project from nothing and calls the module.
    async fn follow(language: &str) {
        let settings = [
            "new_modules.grants = ['caller', 'mailbox', 'store']\n",
            "new_modules.paths = ['/api/v1/first-try/']\n",
        ];
        let service = Service::with_mail_and(&settings.concat()).await;
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), language).await;

        // The operator's command, for this service.
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let latchmail = bin.join("latchmail");
        let (program, config) = (program(), service.operator_config());
        let script = format!(
            "#!/bin/sh\nexec '{}' \"$@\" --config '{}'\n",
            program.display(),
            config.display()
        );
        std::fs::write(&latchmail, script).unwrap();
        std::fs::set_permissions(&latchmail, Permissions::from_mode(0o755)).unwrap();

        let blocks = blocks(&project);
        let [build, install] = &blocks[..] else {
            panic!("the README has other blocks");
        };
        let world = project.join("wit/world.wit");
        let generated = std::fs::read_to_string(&world).ok();
        run(&project, build, &bin).await;
        // The template has the file that the build generates.
        assert_eq!(std::fs::read_to_string(&world).ok(), generated);
        // An installation has two minutes, which a debug build may need for an interpreter.
        let component = install.split_whitespace().last().unwrap();
        let mut compile = Command::new(&program);
        compile
            .args(["module", "compile", component, "--config", "/dev/null"])
            .current_dir(&project)
            .env("LATCHMAIL_CACHE_DIR", cache());
        ProgramOutput::of(&mut compile, "").await.succeeds();
        run(&project, install, &bin).await;

        let ada = service.person("ada").await;
        let hello = ada.send("GET /api/v1/first-try/hello").await;
        assert_eq!(hello.succeeds(200), json!({ "hello": ada.address }));
        ada.receive("From: eve@outside.test\nSubject: One\n\nHello\n")
            .await;
        let news = ada.send("GET /api/v1/first-try/news").await.succeeds(200);
        let message = &news["messages"][0];
        assert_eq!(
            (&message["from"], &message["subject"]),
            (&json!("eve@outside.test"), &json!("One"))
        );
        let mark = json!({ "upto": message["uid"] });
        let marked = ada.post("/api/v1/first-try/mark", &mark).await;
        assert_eq!(marked.succeeds(200), mark);
        let news = ada.send("GET /api/v1/first-try/news").await.succeeds(200);
        assert_eq!(news, json!({ "messages": [] }));
        let invalid = ada.post("/api/v1/first-try/mark", &json!({})).await;
        invalid.fails(400, "upto is required");
        let described = service.send("GET /api/openapi.json").await.succeeds(200);
        let operation = &described["paths"]["/api/v1/first-try/news"]["get"];
        assert_eq!(operation["operationId"], "newsFirstTry");
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_project_in_rust_follows_its_readme() {
        follow("rust").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_project_in_javascript_follows_its_readme() {
        follow("javascript").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_project_in_python_follows_its_readme() {
        follow("python").await;
    }
}
