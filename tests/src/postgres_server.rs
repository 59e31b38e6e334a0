//! A PostgreSQL server of one test, which the test can stop, kill and pause. All other tests share
//! a server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::process::{free_addresses, signal_tree};
use crate::wait_until;

/// A server with an empty database. It ends when this value is dropped or the thread that started
/// it ends.
#[derive(Debug)]
pub struct PostgresServer {
    /// The URL of the database, with the name of its superuser.
    pub url: String,
    child: Child,
    address: SocketAddr,
    account: Option<Account>,
    folder: TempDir,
}

/// The system account of the server, because PostgreSQL refuses to run as root.
#[derive(Clone, Copy, Debug)]
struct Account {
    uid: u32,
    gid: u32,
}

impl PostgresServer {
    /// Creates a server on a loopback address, and starts it. A confirmed transaction survives a
    /// kill of the server, but not of the machine.
    pub async fn start(ip: Ipv4Addr) -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
        let account = geteuid().is_root().then(account);
        if let Some(Account { uid, gid }) = account {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
            chown(folder.path(), Some(uid), Some(gid)).unwrap();
        }
        let mut initdb = command(account, "initdb");
        initdb
            .args([
                "--pgdata",
                "data",
                "--username",
                "postgres",
                "--auth",
                "trust",
            ])
            .args(["--encoding", "UTF8", "--locale", "C", "--no-sync"])
            .current_dir(folder.path());
        let output = initdb.output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "initdb: {errors}");
        // The default rules allow 127.0.0.1 only.
        let rule = "host all all 127.0.0.0/8 trust\n";
        fs::write(folder.path().join("data/pg_hba.conf"), rule).unwrap();
        let [address] = free_addresses(ip);
        let child = spawn(account, folder.path(), address);
        let server = Self {
            url: format!("postgres://postgres@{address}/postgres"),
            child,
            address,
            account,
            folder,
        };
        server.wait_until_ready().await;
        server
    }

    /// Stops the server and starts it again. The server aborts all transactions and closes all
    /// connections.
    pub async fn restart(&mut self) {
        self.stop(Signal::INT).await;
        self.start_again().await;
    }

    /// Ends the server immediately and starts it again. The server recovers its data from its log.
    pub async fn crash(&mut self) {
        self.stop(Signal::QUIT).await;
        self.start_again().await;
    }

    /// Stops the server with a signal, and waits until it has ended.
    pub async fn stop(&mut self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
        self.child.wait().await.unwrap();
    }

    /// Starts a stopped server on the same port.
    pub async fn start_again(&mut self) {
        self.child = spawn(self.account, self.folder.path(), self.address);
        self.wait_until_ready().await;
    }

    /// Stops all processes of the server without closing connections. The kernel still accepts new
    /// connections.
    pub fn pause(&self) {
        signal_tree(self.pid(), Signal::STOP);
    }

    /// Continues all processes.
    pub fn resume(&self) {
        signal_tree(self.pid(), Signal::CONT);
    }

    /// Runs statements.
    pub async fn execute(&self, statements: &str) {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let statements = AssertSqlSafe(statements.to_owned());
        sqlx::raw_sql(statements)
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    }

    /// Returns the rows of a query with one column of text.
    pub async fn rows(&self, query: &str) -> Vec<String> {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let query = sqlx::query_scalar(AssertSqlSafe(query.to_owned()));
        let rows = query.fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    }

    fn pid(&self) -> Pid {
        let id = self.child.id().expect("the server runs");
        Pid::from_raw(id.try_into().unwrap()).unwrap()
    }

    async fn wait_until_ready(&self) {
        wait_until("PostgreSQL accepts connections", async || {
            PgConnection::connect(&self.url).await.is_ok()
        })
        .await;
    }
}

/// Ends the server without a checkpoint. A paused server must be continued first.
impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.child.id().is_some() {
            self.resume();
            let _ = kill_process(self.pid(), Signal::QUIT);
        }
    }
}

fn spawn(account: Option<Account>, folder: &Path, address: SocketAddr) -> Child {
    let log = fs::File::options();
    let log = log
        .clone()
        .create(true)
        .append(true)
        .open(folder.join("server.log"))
        .unwrap();
    let mut postgres = command(account, "postgres");
    postgres
        .args([
            "-D",
            "data",
            "-h",
            &address.ip().to_string(),
            "-p",
            &address.port().to_string(),
            "-k",
        ])
        .arg(folder);
    for setting in [
        "fsync=off",
        "full_page_writes=off",
        "max_connections=200",
        "default_toast_compression=lz4",
        "shared_buffers=64MB",
    ] {
        postgres.args(["-c", setting]);
    }
    postgres
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    postgres.spawn().unwrap()
}

/// Returns a command that runs a program of PostgreSQL as its system account, and ends the program
/// with this thread.
fn command(account: Option<Account>, program: &str) -> Command {
    let program = programs().join(program);
    let mut command = Command::new("setpriv");
    if let Some(Account { uid, gid }) = account {
        command.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
        // A change of the account resets the signal, so the second `setpriv` sets it.
        command.args(["--clear-groups", "setpriv"]);
    }
    command.args(["--pdeathsig", "QUIT"]).arg(program);
    command
}

/// Returns the folder of PostgreSQL's programs: of the newest version on Debian, otherwise a folder
/// of `PATH`.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.chain(std::env::split_paths(&path));
    let mut folders = folders.filter(|folder| folder.join("initdb").exists());
    folders.next().expect("PostgreSQL is installed")
}

/// Returns the account `postgres`, or `nobody` if it does not exist.
fn account() -> Account {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let find = |name| {
        let mut lines = passwd
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let line = lines.find(|line| line[0] == name)?;
        Some(Account {
            uid: line[2].parse().unwrap(),
            gid: line[3].parse().unwrap(),
        })
    };
    find("postgres").or_else(|| find("nobody")).unwrap()
}
