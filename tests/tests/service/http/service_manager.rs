//! The program under a service manager: notifications, SIGHUP and SIGTERM.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use latchmail_tests::process::free_address;
use latchmail_tests::{TEST_TIMEOUT, cache, program, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A secret in the configuration, which no log line may contain.
const SECRET: &str = "hush-hush";

/// A server process and the socket on which it notifies the service manager.
struct Server {
    process: Child,
    notifications: UnixDatagram,
    address: SocketAddr,
    folder: TempDir,
}

impl Server {
    /// Starts a command with this configuration, and waits until the server is ready.
    fn start(command: &str, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("notify");
        let notifications = UnixDatagram::bind(&socket).unwrap();
        notifications.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let address = free_address();
        let file = folder.path().join("latchmail.toml");
        fs::write(&file, text(&folder, address, settings)).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut program = Command::new(program());
        program.env_clear().env("NOTIFY_SOCKET", &socket);
        program.args(command.split(' ')).arg("--config").arg(&file);
        let process = program.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Self {
            process,
            notifications,
            address,
            folder,
        };
        assert_eq!(server.notification(), "READY=1\n");
        server
    }

    /// Returns the next notification.
    fn notification(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.notifications.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap());
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Changes the configuration, sends SIGHUP, and returns the new lines of the log after the
    /// reload.
    fn reload(&self, settings: &str) -> String {
        let before = self.log().len();
        let text = text(&self.folder, self.address, settings);
        fs::write(self.path("latchmail.toml"), text).unwrap();
        self.signal(Signal::HUP);
        let reloading = self.notification();
        assert!(
            reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{reloading}"
        );
        assert_eq!(self.notification(), "READY=1\n");
        let log = self.log();
        assert!(!log.contains(SECRET), "{log}");
        log[before..].to_owned()
    }

    /// Sends SIGTERM, and returns the exit status.
    fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        assert_eq!(self.notification(), "STOPPING=1\n");
        self.process.wait().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the limit of a public route, as a client sees it.
    async fn public_limit(&self) -> String {
        let path = "api/v1/auth/domains";
        let response = reqwest::get(format!("http://{}/{path}", self.address));
        let response = response.await.unwrap();
        let limit = &response.headers()["x-ratelimit-limit"];
        limit.to_str().unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(folder: &TempDir, address: SocketAddr, settings: &str) -> String {
    format!(
        "listen = '{address}'\ninbound.listen = '{address}'\nkey_file = '{folder}/key'\ncache_dir = '{cache}'\nadmin.socket = ''\n\
         index.path = '{folder}/index'\ndatabase.url = 'sqlite:{folder}/latchmail.db'\n{settings}\n",
        folder = folder.path().display(),
        cache = cache().display(),
    )
}

#[tokio::test]
async fn a_reload_applies_limits_and_names_the_keys_that_need_a_restart() {
    let server = Server::start("serve", "limits.public = 20");
    assert_eq!(server.public_limit().await, "20");
    let changed = format!(
        "limits.public = 21\nlog.filter = 'debug'\nservice_name = '{SECRET}'\nmodules.own.config.token = '{SECRET}'"
    );
    let log = server.reload(&changed);
    assert_eq!(server.public_limit().await, "21");
    let line = |key: &str| {
        let key = format!("key=\"{key}\"");
        let mut lines = log.lines().filter(|line| line.contains(&key));
        lines.next().unwrap_or_default().to_owned()
    };
    let restart = "a changed key takes effect only after a restart";
    assert!(line("service_name").contains(restart), "{log}");
    let module = line("modules.own.config.token");
    assert!(module.contains("when the module is changed"), "{log}");
    assert_eq!(log.matches("key=").count(), 2, "{log}");
    // Connections and requests write lines of this level.
    wait_until("the new filter is used", async || {
        server.public_limit().await;
        server.log().contains("DEBUG")
    })
    .await;
    let log = server.reload("limits.public = 20");
    assert!(!log.contains("key="), "{log}");
    assert!(server.stop().success());
}

#[tokio::test]
async fn an_invalid_configuration_changes_nothing() {
    let server = Server::start("serve", "limits.public = 20");
    for (invalid, named) in [
        ("limits.public = 30\nlimits.mial = 1", "mial"),
        ("limits.public = 30\nlimits.mail = 0", "limits.mail"),
        ("limits.public = 30\nlog.filter = 'a=loudly'", "log.filter"),
        (
            "limits.public = 30\nhttp.trusted_proxies = ['x']",
            "trusted_proxies",
        ),
    ] {
        let log = server.reload(invalid);
        assert!(log.contains("ERROR") && log.contains(named), "{log}");
        assert_eq!(server.public_limit().await, "20");
    }
    assert!(server.stop().success());
}

#[test]
fn the_milter_reloads_the_filter_of_its_log() {
    let settings = "inbound.authserv_id = 'mx.test'\ndatabase.mailserver = 'mailserver.db'";
    let server = Server::start("milter --without-dns", settings);
    let changed = format!("{settings}\ninbound.local_from = 'mark'\nlimits.mail = 1");
    let log = server.reload(&changed);
    assert_eq!(log.matches("key=").count(), 1, "{log}");
    assert!(log.contains("key=\"inbound.local_from\""), "{log}");
    let log = server.reload(&format!("{settings}\nlog.filter = 'loud=loudly'"));
    assert!(log.contains("ERROR"), "{log}");
    assert!(server.stop().success());
}

/// Runs `latchmail health` for a server.
fn health(server: &Server) -> (Option<i32>, String) {
    let mut program = Command::new(program());
    program
        .env_clear()
        .env("LATCHMAIL_CONFIG", server.path("latchmail.toml"));
    let output = program.arg("health").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn the_health_check_fails_if_the_service_does_not_respond() {
    let server = Server::start("serve", "");
    let address = server.address;
    let healthy = format!("The service at {address} is healthy.\n");
    assert_eq!(health(&server), (Some(0), healthy));
    server.signal(Signal::STOP);
    let stopped =
        format!("latchmail: the service at {address} is not healthy: no response in 5 s\n");
    assert_eq!(health(&server), (Some(1), stopped));
    server.signal(Signal::KILL);
    let mut server = server;
    server.process.wait().unwrap();
    let (status, text) = health(&server);
    assert!(
        status == Some(1) && text.contains("Connection refused"),
        "{text}"
    );
}
