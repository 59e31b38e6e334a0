//! Tests of a stack's start, outage and end. Nothing of the stack is left after its end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{
    ANN, Folder, LocalServers, Lookup, PASSWORD, PATIENCE, a_mail_goes_all_the_way, arrived,
    deliver, execute, imap, logged_in, sleep, sqlite, stack, timeout,
};

#[tokio::test]
async fn two_stacks_run_side_by_side_and_know_nothing_of_each_other() {
    let (one, two) = (Folder::new("one"), Folder::new("two"));
    let ((first, _one), (second, directory)) = tokio::join!(stack(&one), stack(&two));
    execute(&directory, "UPDATE accounts SET active = FALSE").await;
    a_mail_goes_all_the_way(&first).await;
    let answer = deliver(&second, ANN, "x").await;
    assert!(answer.starts_with("550"), "{answer}");
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test]
async fn an_outage_of_imap_ends_on_the_same_port_with_the_mail_kept() {
    let folder = Folder::new("outage");
    let (mut stack, _directory) = stack(&folder).await;
    deliver(&stack, ANN, "before").await;
    arrived(&mut imap(&stack).await, 1).await;
    let before = imap(&stack).await;
    stack.stop_imap().await.unwrap();
    assert!(TcpStream::connect(stack.imap).await.is_err());
    stack.start_imap().await.unwrap();
    arrived(&mut imap(&stack).await, 1).await;
    stack.restart_imap().await.unwrap();
    arrived(&mut imap(&stack).await, 1).await;
    drop(before);
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn mail_is_there_when_a_stack_starts_again_in_the_same_folder() {
    let folder = Folder::new("again");
    let (lookup, _directory) = sqlite(&folder.0).await;
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    deliver(&stack, ANN, "kept").await;
    arrived(&mut imap(&stack).await, 1).await;
    stack.stop().await.unwrap();
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    // One or two copies: Postfix delivers a message again if it was stopped before it received the confirmation (RFC 5321, section 4.5.4.1).
    let inbox = imap(&stack).await.imap("SELECT INBOX").await;
    assert!(!inbox.contains("* 0 EXISTS"), "{inbox}");
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_stack_that_is_stopped_or_dropped_leaves_no_process() {
    let folder = Folder::new("drop");
    let (lookup, _directory) = sqlite(&folder.0).await;
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    assert!(!processes(&folder.0).is_empty());
    stack.stop().await.unwrap();
    assert_eq!(processes(&folder.0), [""; 0]);
    drop(LocalServers::start(&folder.0, &lookup).await.unwrap());
    nothing_left(&folder.0).await;
}

#[tokio::test]
async fn a_stack_whose_host_is_killed_leaves_no_process() {
    let folder = Folder::new("killed");
    let (_, directory) = sqlite(&folder.0).await;
    directory.close().await;
    let mut host = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::lifetime::a_host_to_be_killed",
            "--ignored",
            "--nocapture",
        ])
        .env("LATCHMAIL_STATE", &folder.0)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut output = BufReader::new(host.stdout.take().unwrap());
    let ready = async {
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert_ne!(output.read_line(&mut line).await.unwrap(), 0, "it ended");
        }
    };
    timeout(PATIENCE, ready)
        .await
        .expect("the host to be ready");
    assert!(!processes(&folder.0).is_empty());
    host.start_kill().unwrap();
    host.wait().await.unwrap();
    nothing_left(&folder.0).await;
}

/// The second process of the test above. It tests nothing by itself.
#[tokio::test]
#[ignore = "started by a_stack_whose_host_is_killed_leaves_no_process"]
async fn a_host_to_be_killed() {
    let folder = PathBuf::from(std::env::var_os("LATCHMAIL_STATE").unwrap());
    let lookup = Lookup::Sqlite(folder.join("mailserver").join("mailserver.db"));
    let stack = LocalServers::start(&folder, &lookup).await.unwrap();
    // An open connection keeps a Dovecot process busy.
    let _imap = imap(&stack).await;
    let mut out = tokio::io::stdout();
    out.write_all(b"ready\n").await.unwrap();
    out.flush().await.unwrap();
    let _ = tokio::io::stdin().read(&mut [0]).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_daemon_that_cannot_start_says_why() {
    let folder = Folder::new("broken");
    // The look-up file is a folder.
    let file = folder.0.join("mailserver").join("mailserver.db");
    std::fs::create_dir_all(&file).unwrap();
    let error = LocalServers::start(&folder.0, &Lookup::Sqlite(file))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("mailserver.db"), "{error}");
}

/// Returns the command lines of processes whose working folder is in `folder` or whose standard output or standard error goes to a file there.
fn processes(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.path();
        let here = |link: &str| {
            std::fs::read_link(process.join(link)).is_ok_and(|target| target.starts_with(folder))
        };
        if here("cwd") || here("fd/1") || here("fd/2") {
            let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&command).replace('\0', " "));
        }
    }
    found
}

async fn nothing_left(folder: &Path) {
    timeout(PATIENCE, async {
        while !processes(folder).is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("left: {:?}", processes(folder)));
}

/// On SQLite, the daemons neither create files beside the service's file nor remove any.
#[tokio::test]
async fn mail_flows_while_the_service_is_down() {
    let folder = Folder::new("alone");
    let (lookup, directory) = sqlite(&folder.0).await;
    directory.close().await;
    drop(directory);
    for subject in ["first", "second"] {
        let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
        let answer = deliver(&stack, ANN, subject).await;
        assert!(answer.starts_with("250"), "{answer}");
        logged_in(&stack, ANN, PASSWORD).await;
        stack.stop().await.unwrap();
        for suffix in ["-wal", "-shm"] {
            let file = format!("mailserver/mailserver.db{suffix}");
            assert!(folder.0.join(&file).exists(), "{file}");
        }
    }
}
