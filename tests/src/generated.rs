//! Clients that are generated from the API description by tools that `scripts/setup --tests`
//! installs. Each client calls all operations (`tests/clients`) and checks every response against
//! the description.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::Service;
use crate::sdk::tools_folder;

/// The folder of the scripts that call all operations.
const TOURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");
/// The client packages.
const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients");
/// A program in the documentation whose types are checked too. Other tests run it.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/follow.ts");

/// A folder for one generated client.
#[derive(Debug)]
pub struct GeneratedClient {
    folder: TempDir,
    tools: PathBuf,
}

impl GeneratedClient {
    /// Creates a folder with the description of a service and the data that a script needs.
    pub async fn of(service: &Service, data: &Value) -> Self {
        let description = service.send("GET /api/openapi.json").await.succeeds(200);
        let folder = TempDir::new().unwrap();
        let generated = Self {
            folder,
            tools: tools_folder().join("clients"),
        };
        generated.write("openapi.json", &description.to_string());
        generated.write("data.json", &data.to_string());
        generated
    }

    /// Generates a TypeScript client, checks the types of its script, and runs the script.
    pub async fn typescript(&self) {
        let modules = self.tools.join("node_modules");
        std::os::unix::fs::symlink(&modules, self.path("node_modules")).unwrap();
        self.write("package.json", r#"{ "type": "module" }"#);
        for file in ["check.ts", "tour.ts"] {
            self.copy(file);
        }
        std::fs::copy(EXAMPLE, self.path("follow.ts")).unwrap();
        let node = tools_folder().join("guests/bin/node");
        let generator = modules.join("openapi-typescript/bin/cli.js");
        self.run(&node, &[path(&generator), "openapi.json", "-o", "api.ts"])
            .await;
        let compiler = modules.join("typescript/bin/tsc");
        let strict = "--strict --noUncheckedIndexedAccess --noEmit --module nodenext --target es2023 --allowImportingTsExtensions --verbatimModuleSyntax";
        let mut arguments = vec![path(&compiler)];
        arguments.extend(strict.split(' '));
        arguments.extend(["tour.ts", "follow.ts"]);
        self.run(&node, &arguments).await;
        self.run(&node, &["tour.ts"]).await;
    }

    /// Generates a Python client and runs its script.
    pub async fn python(&self) {
        self.copy("tour.py");
        // Formatting the generated code would take longer than everything else.
        // The generator knows no media types of messages and archives.
        let config = "post_hooks: []\n\
                      content_type_overrides: {message/rfc822: application/octet-stream, application/zip: application/octet-stream}\n";
        self.write("config.yaml", config);
        let bin = self.tools.join("python/bin");
        let arguments = "generate --path openapi.json --meta none --output-path generated --config config.yaml --fail-on-warning";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        self.run(&bin.join("openapi-python-client"), &arguments)
            .await;
        self.run(&bin.join("python"), &["tour.py"]).await;
    }

    /// Fails if the generated code of the packages in `clients` is not current. With the variable
    /// `INSTA_UPDATE=always`, writes the code instead.
    pub async fn check_packages(&self) {
        let generator = Path::new(PACKAGES).join("generate");
        let updates = std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always");
        let mut arguments = vec![path(&generator)];
        arguments.extend((!updates).then_some("--check"));
        arguments.push("openapi.json");
        self.run(&self.tools.join("python/bin/python"), &arguments)
            .await;
    }

    /// Compiles and packs the package for TypeScript, checks the types of its script, and runs the
    /// script with the packed files.
    pub async fn typescript_package(&self) {
        let modules = self.tools.join("node_modules");
        std::os::unix::fs::symlink(&modules, self.path("node_modules")).unwrap();
        self.write("package.json", r#"{ "type": "module" }"#);
        self.copy("package.ts");
        let source = Path::new(PACKAGES).join("typescript");
        self.run(Path::new("cp"), &["-r", path(&source), "typescript"])
            .await;
        let bin = tools_folder().join("guests/bin");
        let (node, npm) = (bin.join("node"), bin.join("npm"));
        let compiler = modules.join("typescript/bin/tsc");
        self.run(&node, &[path(&compiler), "--project", "typescript"])
            .await;
        let pack = ["pack", "--ignore-scripts", "--silent", "./typescript"];
        self.run(&npm, &pack).await;
        let unpack = ["-c", "tar xzf latchmail-*.tgz"];
        self.run(Path::new("sh"), &unpack).await;
        let strict = "--strict --noUncheckedIndexedAccess --noEmit --skipLibCheck --module nodenext --target es2023 --allowImportingTsExtensions";
        let mut arguments = vec![path(&compiler)];
        arguments.extend(strict.split(' '));
        arguments.push("package.ts");
        self.run(&node, &arguments).await;
        self.run(&node, &["package.ts"]).await;
    }

    /// Runs the script of the package for Python.
    pub async fn python_package(&self) {
        self.copy("package.py");
        let source = Path::new(PACKAGES).join("python/src/latchmail");
        self.run(Path::new("cp"), &["-r", path(&source), "latchmail"])
            .await;
        self.run(&self.tools.join("python/bin/python"), &["package.py"])
            .await;
    }

    async fn run(&self, program: &Path, arguments: &[&str]) {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path());
        let ran = command.kill_on_drop(true).output().await.unwrap();
        assert!(
            ran.status.success(),
            "{arguments:?}: {}\n{}{}",
            ran.status,
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn copy(&self, name: &str) {
        std::fs::copy(Path::new(TOURS).join(name), self.path(name)).unwrap();
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
