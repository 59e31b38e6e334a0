//! Clients that other tools generate from the API description (`scripts/setup --tests` installs these tools). Each makes a tour of all operations
//! (`tests/clients`) and checks every response against the description.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::Service;
use crate::sdk::installed;

/// The folder of the tours.
const TOURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");

/// A folder for one generated client.
#[derive(Debug)]
pub struct Generated {
    folder: TempDir,
    tools: PathBuf,
}

impl Generated {
    /// A folder with the description of a service and the data that a tour needs.
    pub async fn of(service: &Service, world: &Value) -> Self {
        let description = service.ask("GET /api/openapi.json").await.succeeds(200);
        let folder = TempDir::new().unwrap();
        let generated = Self {
            folder,
            tools: installed().join("clients"),
        };
        generated.write("openapi.json", &description.to_string());
        generated.write("world.json", &world.to_string());
        generated
    }

    /// Generates a TypeScript client, checks the types of its tour, and makes the tour.
    pub async fn typescript(&self) {
        let modules = self.tools.join("node_modules");
        std::os::unix::fs::symlink(&modules, self.path("node_modules")).unwrap();
        self.write("package.json", r#"{ "type": "module" }"#);
        for file in ["check.ts", "tour.ts"] {
            self.copy(file);
        }
        let node = installed().join("guests/bin/node");
        let generator = modules.join("openapi-typescript/bin/cli.js");
        self.run(&node, &[path(&generator), "openapi.json", "-o", "api.ts"])
            .await;
        let compiler = modules.join("typescript/bin/tsc");
        let strict = "--strict --noUncheckedIndexedAccess --noEmit --module nodenext --target es2023 --allowImportingTsExtensions --verbatimModuleSyntax";
        let mut arguments = vec![path(&compiler)];
        arguments.extend(strict.split(' '));
        arguments.push("tour.ts");
        self.run(&node, &arguments).await;
        self.run(&node, &["tour.ts"]).await;
    }

    /// Generates a Python client and makes its tour.
    pub async fn python(&self) {
        self.copy("tour.py");
        // Formatting the generated code would take longer than everything else.
        self.write("config.yaml", "post_hooks: []\n");
        let bin = self.tools.join("python/bin");
        let arguments = "generate --path openapi.json --meta none --output-path generated --config config.yaml --fail-on-warning";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        self.run(&bin.join("openapi-python-client"), &arguments)
            .await;
        self.run(&bin.join("python"), &["tour.py"]).await;
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
