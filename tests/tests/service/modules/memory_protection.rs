//! Protection of the memory of `latchmail serve` from core dumps and from other processes of its
//! user. The user is not root.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use latchmail_tests::{TEST_TIMEOUT, program};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// A user and group without rights.
const NOBODY: u32 = 65534;

fn configuration(state: &Path) -> String {
    let state = state.display();
    format!(
        "listen = '127.0.0.1:0'
base_url = 'http://service.test'
key_file = '{state}/latchmail.key'
cache_dir = '{state}/cache'
admin.socket = '{state}/admin.sock'
database.url = 'sqlite:{state}/latchmail.db'
database.mailserver = '{state}/mailserver.db'
imap.address = '127.0.0.1:1'
smtp.address = '127.0.0.1:1'
registration.domains = ['first.test']
"
    )
}

#[tokio::test]
async fn core_dumps_and_processes_of_the_same_user_cannot_read_the_memory() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(state.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let config = state.path().join("latchmail.toml");
    fs::write(&config, configuration(state.path())).unwrap();
    // Only root can enter the program's folder, so the program is started through a descriptor.
    let mut service = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["/proc/self/fd/0", "serve", "--config"])
        .arg(&config)
        .stdin(File::open(program()).unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(service.stderr.take().unwrap()).lines();
    let serving = async {
        let mut lines = Vec::new();
        while let Some(line) = log.next_line().await.unwrap() {
            if line.contains("serving") {
                return;
            }
            lines.push(line);
        }
        panic!("the service ended: {lines:#?}");
    };
    timeout(TEST_TIMEOUT, serving).await.unwrap();
    let process = Path::new("/proc").join(service.id().unwrap().to_string());
    assert_eq!(fs::metadata(&process).unwrap().uid(), NOBODY);

    let limits = fs::read_to_string(process.join("limits")).unwrap();
    let core = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"));
    let core: Vec<&str> = core.unwrap().split_whitespace().collect();
    assert_eq!(core[..2], ["0", "0"]);
    // For a non-dumpable process these files belong to root, not to its user.
    assert_eq!(fs::metadata(process.join("environ")).unwrap().uid(), 0);
    // The sandbox has opened the file with which it clears memory fast.
    let opened = fs::read_dir(process.join("fd")).unwrap();
    let pagemap = opened
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .any(|file| file.ends_with("pagemap"));
    assert!(pagemap, "wasmtime could not open /proc/self/pagemap");
}
