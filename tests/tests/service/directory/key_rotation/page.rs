//! Runs the commands of docs/key-rotation.md, in the order of the page. Programs with the names
//! `ssh` and `kubectl` run the command of the other host.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use latchmail_tests::{ProgramOutput, Service, program};
use tokio::process::Command;

use super::{LONG_AGO, current, kids, wait_until_resealed};

/// Returns the `sh` blocks of the page.
fn blocks() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/key-rotation.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("```").unwrap().0.to_owned())
        .collect()
}

/// Creates the programs that the page uses. `config` is the configuration of the first host, and
/// `other` of the second one.
fn programs(bin: &Path, config: &Path, other: &Path) {
    std::fs::create_dir(bin).unwrap();
    let program = program();
    let latchmail = |config: &Path| {
        let (program, config) = (program.display(), config.display());
        format!("exec {program} \"$@\" --config {config}")
    };
    let (first, second) = (latchmail(config), latchmail(other));
    let script = |name: &str, text: &str| {
        let file = bin.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
    };
    script("latchmail", &first);
    script(
        "ssh",
        &format!("[ \"$1 $2\" = 'root@two.example.com latchmail' ] || exit 2\nshift 2\n{second}"),
    );
    script(
        "kubectl",
        &format!(
            "case \"$*\" in\n\
             'exec latchmail-0 -- latchmail '*) shift 4; {first};;\n\
             'exec -i latchmail-1 -- latchmail '*) shift 5; {second};;\n\
             'create secret '*) exec cat;;\n\
             'apply -f -') [ \"$(cat)\" = \"$(latchmail key export)\" ];;\n\
             *) exit 2;; esac"
        ),
    );
}

#[tokio::test]
async fn the_commands_of_the_page_work() {
    // The first rotation with two hosts names the host that does not have the new key.
    const STATUSES: [i32; 10] = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    let service = Service::start().await;
    service.person("ada").await;
    let file = service.state.join("latchmail.key");
    let state = service.state.display().to_string();
    let first = current(&service).await;
    let (bin, other_config) = (service.state.join("bin"), service.state.join("other.toml"));
    let config = service.operator_config();
    programs(&bin, &config, &other_config);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let blocks = blocks();
    assert_eq!(blocks.len(), STATUSES.len());
    let mut other = None;
    for (index, (block, status)) in blocks.iter().zip(STATUSES).enumerate() {
        match index {
            // "One host": the earlier key is removed.
            3 => {
                wait_until_resealed(&service, &file, &first).await;
                service.execute(LONG_AGO).await;
            }
            // "Several hosts".
            4 => {
                assert_eq!(kids(&file), [current(&service).await]);
                let host = service.another_host().await;
                let text = std::fs::read_to_string(&config).unwrap();
                let own = file.display().to_string();
                let text = text.replace(&own, &host.key_file().display().to_string());
                std::fs::write(&other_config, text).unwrap();
                other = Some(host);
            }
            // "Kubernetes", with one pod.
            7 => {
                assert_eq!(kids(&file).len(), 2);
                other.take().unwrap().stop().await;
            }
            _ => {}
        }
        let mut command = Command::new("bash");
        let block = block.replace("/root/", &format!("{state}/"));
        command
            .env_clear()
            .env("PATH", &path)
            .args(["-euo", "pipefail", "-c", &block]);
        let output = ProgramOutput::of(&mut command, "").await;
        assert_eq!(output.status, status, "{block}: {output:?}");
        let name = &service.app().host_name;
        assert!(status == 0 || output.stderr.contains(name), "{output:?}");
    }
    assert_eq!(kids(&file).len(), 4);
    let backup = service.state.join("latchmail-key.backup");
    assert!(std::fs::metadata(backup).unwrap().mode().trailing_zeros() >= 6);
}
