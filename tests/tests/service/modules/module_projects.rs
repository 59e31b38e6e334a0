//! Projects that `latchmail module new` creates outside the repository: each is tested, built,
//! installed and called as its own README says.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use latchmail_tests::{ProgramOutput, cache, program, tools_folder};
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

/// Makes the tools of the tests available to a project in TypeScript.
fn use_npm_packages(project: &Path) {
    let packages = tools_folder().join("guests/node_modules");
    symlink(packages, project.join("node_modules")).unwrap();
}

/// Runs commands in a project, with the Node.js and the Go that the tests have installed. Returns
/// the output.
pub(super) async fn run(project: &Path, commands: &str, bin: &Path) -> String {
    let node = tools_folder().join("guests/bin");
    let path = [bin, &node].map(|folder| folder.display().to_string());
    let path = format!("{}:{}", path.join(":"), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", commands]);
    command.current_dir(project).env("PATH", path);
    // A project in Go needs nothing from the network.
    command.envs([("GOPROXY", "off"), ("GOTOOLCHAIN", "local")]);
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
        ("typescript", "npm test\n"),
        ("javascript", "npm test\n"),
        ("python", ".venv/bin/python -m unittest\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), language).await;
        assert!(blocks(&project)[0].contains(test), "{language}");
        match language {
            "python" => use_python(&project),
            "typescript" => use_npm_packages(&project),
            _ => {}
        }
        run(&project, test, &project).await;
    }
}

#[tokio::test]
async fn the_tests_of_a_new_project_in_go_pass_and_its_component_can_be_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let project = create(folder.path(), "go").await;
    run(&project, "go test ./...", &project).await;
    for with_handlers in [false, true] {
        if with_handlers {
            let world = project.join("wit/world.wit");
            let text = std::fs::read_to_string(&world).unwrap();
            std::fs::write(&world, text.replace("// export", "export")).unwrap();
        }
        let command = format!("'{}' module build", program().display());
        let built = run(&project, &command, &project).await;
        let component = project.join("build/first_try.wasm");
        assert_eq!(
            built.trim(),
            component.canonicalize().unwrap().to_str().unwrap()
        );
        let mut compile = Command::new(program());
        compile
            .args([
                "module",
                "compile",
                "build/first_try.wasm",
                "--config",
                "/dev/null",
            ])
            .current_dir(&project)
            .env("LATCHMAIL_CACHE_DIR", cache());
        ProgramOutput::of(&mut compile, "").await.succeeds();
    }
}

#[tokio::test]
async fn a_folder_without_a_project_cannot_be_built() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    command.current_dir(&folder).args(["module", "build"]);
    let built = ProgramOutput::of(&mut command, "").await;
    built.fails_mentioning("has no module and no crates");
}

mod long {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use latchmail_tests::{Service, modules};
    use serde_json::json;
    use tokio::time::sleep;

    use super::*;

    /// The settings of a service for new projects.
    const SETTINGS: &str = "new_modules.grants = ['caller', 'mailbox', 'store']\n\
        new_modules.paths = ['/api/v1/first-try/']\n";

    /// Creates a folder with the operator's command for a service.
    fn operator_bin(folder: &Path, service: &Service) -> PathBuf {
        let bin = folder.join("bin");
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
        bin
    }

    /// Follows the README of a new project from nothing and calls the module.
    async fn follow(language: &str) {
        let service = Service::with_mail_and(SETTINGS).await;
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), language).await;
        let bin = operator_bin(folder.path(), &service);
        let begun = Instant::now();
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
        let mut compile = Command::new(program());
        compile
            .args(["module", "compile", component, "--config", "/dev/null"])
            .current_dir(&project)
            .env("LATCHMAIL_CACHE_DIR", cache());
        ProgramOutput::of(&mut compile, "").await.succeeds();
        run(&project, install, &bin).await;

        let ada = service.person("ada").await;
        let hello = ada.send("GET /api/v1/first-try/hello").await;
        assert_eq!(hello.succeeds(200), json!({ "hello": ada.address }));
        // The first compilation of the component, above, is a part of this time.
        eprintln!("{language}: first response after {:?}", begun.elapsed());
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
    async fn a_project_in_typescript_follows_its_readme() {
        follow("typescript").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_project_in_go_follows_its_readme() {
        follow("go").await;
    }

    /// The maximum time from a change of a source to a response of the new version. In a debug
    /// build, the service compiles an interpreter in about 40 s, and the changes of a source in a
    /// few seconds. A release build needs 3 s, and 5 s for a project in Rust.
    const LIVE: Duration = Duration::from_secs(15);

    async fn wait_for(limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + limit;
        while !condition().await {
            assert!(Instant::now() < deadline, "timeout after {limit:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Watches a project, changes `file`, and calls the new version.
    async fn watch(language: &str, file: &str) {
        let service = Service::with_mail_and(SETTINGS).await;
        let ada = service.person("ada").await;
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), language).await;
        let bin = operator_bin(folder.path(), &service);
        match language {
            "python" => use_python(&project),
            "typescript" | "javascript" => use_npm_packages(&project),
            _ => {}
        }
        let node = tools_folder().join("guests/bin");
        let path = format!("{}:{}", node.display(), std::env::var("PATH").unwrap());
        let mut watching = Command::new(bin.join("latchmail"));
        watching
            .args(["module", "dev"])
            .current_dir(&project)
            .envs([
                ("PATH", path.as_str()),
                ("GOPROXY", "off"),
                ("GOTOOLCHAIN", "local"),
            ])
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut watching = watching.spawn().unwrap();
        let hello = async || ada.send("GET /api/v1/first-try/hello").await;
        // The first build and the first compilation by the service.
        wait_for(Duration::from_mins(4), async || hello().await.status == 200).await;
        let file = project.join(file);
        let code = std::fs::read_to_string(&file).unwrap();
        let changed = code.replace("hello: ", "welcome: ");
        let changed = changed.replace("\"hello\": ", "\"welcome\": ");
        assert_ne!(changed, code);
        let (before, after) = (
            json!({ "hello": ada.address }),
            json!({ "welcome": ada.address }),
        );
        for (code, expected) in [(&changed, &after), (&code, &before)] {
            // A file that cannot be compiled changes nothing.
            std::fs::write(&file, "no no").unwrap();
            let begun = Instant::now();
            std::fs::write(&file, code).unwrap();
            wait_for(LIVE, async || hello().await.succeeds(200) == *expected).await;
            eprintln!("{language}: live after {:?}", begun.elapsed());
        }
        watching.kill().await.unwrap();
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_watched_project_in_rust_is_installed_after_each_change() {
        watch("rust", "src/hello.rs").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_watched_project_in_typescript_is_installed_after_each_change() {
        watch("typescript", "src/hello.ts").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_watched_project_in_javascript_is_installed_after_each_change() {
        watch("javascript", "src/hello.js").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_watched_project_in_python_is_installed_after_each_change() {
        watch("python", "src/hello.py").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_watched_project_in_go_is_installed_after_each_change() {
        watch("go", "routes/hello.go").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn the_tests_of_a_project_run_in_a_private_service() {
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), "go").await;
        let test = format!(
            "LATCHMAIL_MODULES='{}' '{}' module test",
            modules().display(),
            program().display()
        );
        run(&project, &test, &project).await;
        // Only the test in the service notices this change.
        let file = project.join("service/service_test.go");
        let code = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, code.replace("hello[\"hello\"]", "hello[\"other\"]")).unwrap();
        let failing = format!("! {test} 2>output && grep 'the tests failed' output");
        run(&project, &failing, &project).await;
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
