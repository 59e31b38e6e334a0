//! Two hosts in processes of their own behind a balancer, with one PostgreSQL server and one pair of mail servers. A test can stop, kill and pause all of them.
//!
//! The balancer is `HAProxy`. It sends each request to the next host that is ready, and names the host in the header `x-host` of the response. If it cannot
//! connect to a host, it sends the request to the other one. It never repeats a request that a host has received.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use latchmail_core::clock::Clock;
use latchmail_mailserver::{LocalServers, Lookup};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::mail_servers::{Logs, milter};
use crate::process::{free_addresses, own_loopback};
use crate::service::{high_limits, parsed, settings};
use crate::{
    HostProcess, MailServers, Person, PostgresServer, ProgramOutput, Service, modules, program,
    wait_until,
};

/// The names of the hosts in the balancer.
const NAMES: [&str; 2] = ["one", "two"];

/// Two hosts behind a balancer.
#[derive(Debug)]
pub struct SeveralHosts {
    /// The hosts, in the order of their names: `one`, `two`.
    pub hosts: [Host; 2],
    /// The service as clients see it, behind the balancer. It owns the mail servers.
    pub service: Service,
    _balancer: Child,
    /// The database server.
    pub postgres: PostgresServer,
}

/// One of the hosts.
#[derive(Debug)]
pub struct Host {
    /// The service of this host, without the balancer.
    pub service: Service,
    /// Its process.
    pub process: HostProcess,
}

impl Host {
    /// Returns the same person as a client of this host.
    pub fn person<'a>(&'a self, person: &Person<'_>) -> Person<'a> {
        Person {
            service: &self.service,
            address: person.address.clone(),
            access: person.access.clone(),
            refresh: person.refresh.clone(),
        }
    }

    /// Stops the host after its active requests, and starts another version with the same state and on the same address.
    pub async fn replace(&mut self, program: &Path, modules: &Path) {
        assert!(self.process.stop().await);
        write_config(&self.service.state, &self.service.settings, modules);
        self.process.set_program(program);
        self.process.start().await;
    }
}

impl SeveralHosts {
    /// Starts everything.
    pub async fn start() -> Self {
        Self::start_version(&program(), &modules()).await
    }

    /// Starts everything with this program as both hosts, and with this folder of modules.
    pub async fn start_version(program: &Path, modules: &Path) -> Self {
        let ip = own_loopback();
        let postgres = PostgresServer::start(ip).await;
        let folders = [(); 3].map(|()| tempfile::Builder::new().prefix("lm").tempdir().unwrap());
        let [all, one, two] = folders;
        let [balancer, first, second] = free_addresses(ip);
        migrate(program, &postgres.url, all.path()).await;
        let lookup = Lookup::Postgres(postgres.url.clone());
        let (folder, options) = (all.path().join("mail"), milter(""));
        let stack = LocalServers::start_with_milter(&folder, &lookup, &options);
        let stack = stack.await.unwrap();
        let mail = MailServers::from(&stack);
        let base = format!("http://{balancer}");
        let text = |folder: &Path, listen: &str| {
            let own = format!(
                "listen = '{listen}'\nbase_url = '{base}'\ndatabase.url = '{}'",
                postgres.url
            );
            let unused = folder.join("unused.db");
            settings(folder, &unused, Some(&mail), &high_limits(), &own)
        };
        let process = async |folder: &TempDir, listen: &str| {
            let config = write_config(folder.path(), &text(folder.path(), listen), modules);
            HostProcess::of(
                program.to_owned(),
                config,
                None,
                &format!("http://{listen}"),
            )
            .await
        };
        let [first, second] = [first, second].map(|address| address.to_string());
        let first_process = process(&one, &first).await;
        fs::copy(
            one.path().join("latchmail.key"),
            two.path().join("latchmail.key"),
        )
        .unwrap();
        let second_process = process(&two, &second).await;
        let host = |folder: TempDir, listen: &str, process| Host {
            service: service(
                format!("http://{listen}"),
                text(folder.path(), listen),
                folder,
                Some(mail.clone()),
                None,
            ),
            process,
        };
        let child = start_balancer(all.path(), &balancer.to_string(), [&first, &second]);
        let settings = text(all.path(), "127.0.0.1:0");
        let hosts = Self {
            hosts: [
                host(one, &first, first_process),
                host(two, &second, second_process),
            ],
            service: service(base, settings, all, Some(mail.clone()), Some(stack)),
            _balancer: child,
            postgres,
        };
        hosts.wait_until_both_serve().await;
        hosts
    }

    /// Replaces the host with this number by another version ([`Host::replace`]). The balancer sends it no requests from before the stop until it is ready.
    pub async fn upgrade(&mut self, number: usize, program: &Path, modules: &Path) {
        self.set_state(number, "drain").await;
        self.hosts[number].replace(program, modules).await;
        self.set_state(number, "ready").await;
        self.wait_until_both_serve().await;
    }

    /// Sets the state of a host in the balancer.
    async fn set_state(&self, number: usize, state: &str) {
        let socket = socket(&self.service.state);
        let mut socket = UnixStream::connect(socket).await.unwrap();
        let command = format!("set server hosts/{} state {state}\n", NAMES[number]);
        socket.write_all(command.as_bytes()).await.unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).await.unwrap();
        assert_eq!(reply.trim(), "", "{command}");
    }

    /// Waits until the balancer uses both hosts.
    pub async fn wait_until_both_serve(&self) {
        wait_until("the balancer uses both hosts", async || {
            let mut names = Vec::new();
            for _ in NAMES {
                let Ok(response) = self.service.request("GET /api/health").send().await else {
                    return false;
                };
                let name = response.headers().get("x-host");
                names.extend(name.and_then(|name| Some(name.to_str().ok()?.to_owned())));
            }
            names.sort();
            names == NAMES
        })
        .await;
    }
}

/// Creates the tables, with a command of the operator.
async fn migrate(program: &Path, database: &str, folder: &Path) {
    let config = folder.join("migrate.toml");
    fs::write(
        &config,
        format!(
            "database.url = '{database}'\nkey_file = '{}'\n",
            folder.join("unused.key").display()
        ),
    )
    .unwrap();
    let mut command = Command::new(program);
    command
        .env_clear()
        .args(["account", "list", "--config"])
        .arg(config);
    ProgramOutput::of(&mut command, "").await.succeeds();
}

/// Writes the configuration of a host with this folder of modules, and returns its path.
fn write_config(folder: &Path, settings: &str, modules: &Path) -> PathBuf {
    let config = folder.join("process.toml");
    let [usual, modules] = [&*crate::modules(), modules].map(|path| path.display().to_string());
    fs::write(&config, settings.replace(&usual, &modules)).unwrap();
    config
}

/// Returns a service whose host runs in another process.
fn service(
    base: String,
    settings: String,
    folder: TempDir,
    mail: Option<MailServers>,
    stack: Option<LocalServers>,
) -> Service {
    Service {
        base,
        clock: Clock::system(),
        state: folder.path().to_owned(),
        // The service with the mail servers prints their logs.
        logs: stack.as_ref().map(MailServers::from).as_ref().map(Logs::of),
        mail,
        stack,
        users: None,
        running: None,
        config: Box::new(parsed(&settings)),
        settings,
        client: reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_mins(1))
            .build()
            .unwrap(),
        database: None,
        _borrowed: None,
        _folder: folder,
    }
}

/// Returns the path of the socket for commands to the balancer.
fn socket(folder: &Path) -> PathBuf {
    folder.join("haproxy.sock")
}

/// Starts the balancer. A check of a host can take some seconds on a busy machine.
fn start_balancer(folder: &Path, listen: &str, hosts: [&str; 2]) -> Child {
    let [one, two] = NAMES;
    let [first, second] = hosts;
    let socket = socket(folder);
    let socket = socket.display();
    let text = format!(
        "global
    log stderr format raw local0 notice
    stats socket {socket} mode 600 level admin
defaults
    mode http
    timeout connect 2s
    timeout client 90s
    timeout server 90s
    timeout check 5s
    retries 3
    option redispatch 1
frontend clients
    bind {listen}
    http-response set-header x-host %s
    default_backend hosts
backend hosts
    balance roundrobin
    option httpchk GET /api/readiness
    http-check expect status 200
    default-server check inter 200ms fall 2 rise 1
    server {one} {first}
    server {two} {second}
"
    );
    let config = folder.join("haproxy.cfg");
    fs::write(&config, text).unwrap();
    let log = fs::File::create(folder.join("haproxy.log")).unwrap();
    // -db: run in the foreground.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "haproxy", "-db", "-f"])
        .arg(config);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.kill_on_drop(true).spawn().unwrap()
}
