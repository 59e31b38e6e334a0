//! Tests of a stack's start, outage and end. After its end, no process of the stack remains.

use std::path::{Path, PathBuf};
use std::time::Duration;

use latchmail_mailserver::{LocalServers, Lookup};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::support::{
    ANN, Folder, PASSWORD, TIMEOUT, assert_mail_is_delivered, deliver, execute, imap, log_in,
    sqlite, stack, wait_for_messages,
};

#[tokio::test]
async fn two_stacks_run_at_the_same_time_and_do_not_share_data() {
    let (one, two) = (Folder::new("one"), Folder::new("two"));
    let ((first, _one), (second, directory)) = tokio::join!(stack(&one), stack(&two));
    execute(&directory, "UPDATE accounts SET active = FALSE").await;
    assert_mail_is_delivered(&first).await;
    let reply = deliver(&second, ANN, "x").await;
    assert!(reply.starts_with("550"), "{reply}");
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test]
async fn imap_restarts_on_the_same_port_with_all_mail() {
    let folder = Folder::new("outage");
    let (mut stack, _directory) = stack(&folder).await;
    deliver(&stack, ANN, "before").await;
    wait_for_messages(&mut imap(&stack).await, 1).await;
    let before = imap(&stack).await;
    stack.stop_imap().await.unwrap();
    assert!(TcpStream::connect(stack.imap).await.is_err());
    stack.start_imap().await.unwrap();
    wait_for_messages(&mut imap(&stack).await, 1).await;
    stack.restart_imap().await.unwrap();
    wait_for_messages(&mut imap(&stack).await, 1).await;
    drop(before);
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_stack_that_restarts_in_the_same_folder_still_has_its_mail() {
    let folder = Folder::new("again");
    let (lookup, _directory) = sqlite(&folder.0).await;
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    deliver(&stack, ANN, "stored").await;
    wait_for_messages(&mut imap(&stack).await, 1).await;
    stack.stop().await.unwrap();
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    // One or two copies: Postfix delivers a message again if it was stopped before it received the
    // confirmation (RFC 5321, section 4.5.4.1).
    let inbox = imap(&stack).await.imap("SELECT INBOX").await;
    assert!(!inbox.contains("* 0 EXISTS"), "{inbox}");
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn no_process_remains_after_a_stack_is_stopped_or_dropped() {
    let folder = Folder::new("drop");
    let (lookup, _directory) = sqlite(&folder.0).await;
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    assert!(!processes(&folder.0).is_empty());
    stack.stop().await.unwrap();
    assert_eq!(processes(&folder.0), [""; 0]);
    drop(LocalServers::start(&folder.0, &lookup).await.unwrap());
    wait_until_no_process(&folder.0).await;
}

#[tokio::test]
async fn no_process_remains_after_the_host_is_killed() {
    let folder = Folder::new("killed");
    let (_, directory) = sqlite(&folder.0).await;
    directory.close().await;
    let mut host = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::lifetime::host_process_that_is_killed",
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
            assert_ne!(
                output.read_line(&mut line).await.unwrap(),
                0,
                "the host exited"
            );
        }
    };
    timeout(TIMEOUT, ready)
        .await
        .expect("the host did not become ready");
    assert!(!processes(&folder.0).is_empty());
    host.start_kill().unwrap();
    host.wait().await.unwrap();
    wait_until_no_process(&folder.0).await;
}

/// The process that the test above starts and kills. It tests nothing by itself.
#[tokio::test]
#[ignore = "started by no_process_remains_after_the_host_is_killed"]
async fn host_process_that_is_killed() {
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
async fn the_error_of_a_daemon_that_cannot_start_names_the_cause() {
    let folder = Folder::new("broken");
    // A folder exists at the path of the database file.
    let file = folder.0.join("mailserver").join("mailserver.db");
    std::fs::create_dir_all(&file).unwrap();
    let error = LocalServers::start(&folder.0, &Lookup::Sqlite(file))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("mailserver.db"), "{error}");
}

/// Returns the command lines of processes that have their working folder, standard output or
/// standard error in `folder`.
fn processes(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.path();
        let links_there = |link: &str| {
            std::fs::read_link(process.join(link)).is_ok_and(|target| target.starts_with(folder))
        };
        if links_there("cwd") || links_there("fd/1") || links_there("fd/2") {
            let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&command).replace('\0', " "));
        }
    }
    found
}

async fn wait_until_no_process(folder: &Path) {
    timeout(TIMEOUT, async {
        while !processes(folder).is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("remaining processes: {:?}", processes(folder)));
}

/// The daemons neither create nor remove the files that SQLite keeps next to the database.
#[tokio::test]
async fn the_mail_servers_work_while_the_service_is_down() {
    let folder = Folder::new("alone");
    let (lookup, directory) = sqlite(&folder.0).await;
    directory.close().await;
    drop(directory);
    for subject in ["first", "second"] {
        let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
        let reply = deliver(&stack, ANN, subject).await;
        assert!(reply.starts_with("250"), "{reply}");
        log_in(&stack, ANN, PASSWORD).await;
        stack.stop().await.unwrap();
        for suffix in ["-wal", "-shm"] {
            let file = format!("mailserver/mailserver.db{suffix}");
            assert!(folder.0.join(&file).exists(), "{file}");
        }
    }
}
