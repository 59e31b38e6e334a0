//! Two hosts in processes of their own behind a balancer, with one PostgreSQL server, one Redis
//! server and one pair of mail servers. A test can stop, kill and pause all of them.
//!
//! The balancer is `HAProxy`. It sends each request to the next host that is ready, and names the
//! host in the header `x-host` of the response. If it cannot connect to a host, it sends the
//! request to the other one. It never repeats a request that a host has received.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use latchmail_core::clock::Clock;
use latchmail_mailserver::{LocalServers, Lookup, own_loopback};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::another_host::write_private;
use crate::mail_servers::{Logs, milter};
use crate::process::free_addresses;
use crate::settings::{high_limits, parsed, settings};
use crate::{
    HostProcess, MailServers, Person, PostgresServer, ProgramOutput, Redis, Service, modules,
    program, wait_until,
};

/// The limit of the routes without a credential, in requests per minute, so that a test can reach
/// it. All other limits are high.
pub const PUBLIC_LIMIT: u32 = 5;
/// The seconds between SIGTERM and the end of a host. The balancer needs two checks to notice that
/// a host is not ready.
const DRAIN_DELAY: u32 = 3;

/// The names of the hosts in the balancer.
const NAMES: [&str; 2] = ["one", "two"];
/// The name of the configuration file in the folder of a host.
const CONFIG: &str = "process.toml";

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
    /// The server of the rate limits. A version from before `redis.url` does not use it.
    pub redis: Redis,
}

/// One of the hosts.
#[derive(Debug)]
pub struct Host {
    /// The service of this host, without the balancer.
    pub service: Service,
    /// Its process.
    pub process: HostProcess,
    /// The optional settings of its version.
    optional: OptionalSettings,
}

/// The settings that only newer versions know.
#[derive(Clone, Debug)]
struct OptionalSettings {
    /// Lines of the configuration.
    lines: String,
    /// Whether the version has `http.drain_delay`.
    drains: bool,
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

    /// Makes the host refuse the checks of the balancer, while it serves all other requests.
    fn refuse_checks(&self) {
        let high = "limits.readiness = 100000";
        let config = self.service.state.join(CONFIG);
        let text = fs::read_to_string(&config).unwrap();
        assert!(text.contains(high));
        fs::write(&config, text.replace(high, "limits.readiness = 1")).unwrap();
        kill_process(self.process.pid(), Signal::HUP).unwrap();
    }
}

impl SeveralHosts {
    /// Starts everything.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts everything with additional lines of configuration, in dotted form.
    pub async fn start_with(settings: &str) -> Self {
        Self::start_all(&program(), &modules(), settings).await
    }

    /// Starts everything with this program as both hosts, and with this folder of modules.
    pub async fn start_version(program: &Path, modules: &Path) -> Self {
        Self::start_all(program, modules, "").await
    }

    async fn start_all(program: &Path, modules: &Path, own_settings: &str) -> Self {
        let ip = own_loopback();
        let postgres = PostgresServer::start(ip).await;
        let folders = [(); 3].map(|()| tempfile::Builder::new().prefix("lm").tempdir().unwrap());
        let [all, one, two] = folders;
        let [balancer, first, second] = free_addresses(ip);
        let redis = Redis::start().await;
        migrate(program, &postgres.url, all.path()).await;
        let optional = optional_settings(program, &redis, all.path()).await;
        let limits = known_limits(program, all.path()).await;
        let lookup = Lookup::Postgres(postgres.url.clone());
        let (folder, options) = (all.path().join("mail"), milter(""));
        let stack = LocalServers::start_with_milter(&folder, &lookup, &options);
        let stack = stack.await.unwrap();
        let mail = MailServers::from(&stack);
        let base = format!("http://{balancer}");
        let text = |folder: &Path, listen: &str| {
            let own = format!(
                "listen = '{listen}'\nbase_url = '{base}'\ndatabase.url = '{}'\nlimits.public = {PUBLIC_LIMIT}\n{own_settings}",
                postgres.url
            );
            let unused = folder.join("unused.db");
            settings(folder, &unused, Some(&mail), &limits, &own)
        };
        let process = async |folder: &TempDir, listen: &str| {
            let config = write_config(
                folder.path(),
                &text(folder.path(), listen),
                &optional,
                modules,
            );
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
            optional: optional.clone(),
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
            redis,
        };
        hosts.wait_until_both_serve().await;
        hosts
    }

    /// Stops the host with this number by SIGTERM, as an operator does, and starts another version
    /// with the same state and on the same address. During `http.drain_delay` of the old version,
    /// the balancer notices that the host is not ready, and uses the other host.
    ///
    /// A version without `http.drain_delay` closes its connections at once.
    /// [`scale.md`](../../docs/scale.md) says that such a host must first be taken out of the
    /// balancer, so its checks fail before the stop.
    pub async fn upgrade(&mut self, number: usize, program: &Path, modules: &Path) {
        if !self.hosts[number].optional.drains {
            self.hosts[number].refuse_checks();
            self.wait_until_serve(&[NAMES[1 - number]]).await;
        }
        let optional = optional_settings(program, &self.redis, &self.service.state).await;
        let host = &mut self.hosts[number];
        assert!(host.process.stop().await);
        write_config(
            &host.service.state,
            &host.service.settings,
            &optional,
            modules,
        );
        host.optional = optional;
        host.process.set_program(program);
        host.process.start().await;
        self.wait_until_both_serve().await;
    }

    /// Waits until the balancer uses both hosts.
    pub async fn wait_until_both_serve(&self) {
        self.wait_until_serve(&NAMES).await;
    }

    /// Waits until the balancer uses exactly these hosts.
    async fn wait_until_serve(&self, wanted: &[&str]) {
        wait_until(&format!("the balancer uses {wanted:?}"), async || {
            let mut names = BTreeSet::new();
            // More requests than hosts, because other clients also send requests.
            for _ in 0..4 * NAMES.len() {
                let Ok(response) = self.service.request("GET /api/health").send().await else {
                    return false;
                };
                let name = response.headers().get("x-host");
                names.extend(name.and_then(|name| Some(name.to_str().ok()?.to_owned())));
            }
            names.iter().eq(wanted)
        })
        .await;
    }
}

/// Creates the tables, with a command of the operator.
async fn migrate(program: &Path, database: &str, folder: &Path) {
    let output = list_accounts(program, &format!("database.url = '{database}'"), folder).await;
    output.succeeds();
}

/// Returns the optional settings that a version knows.
async fn optional_settings(program: &Path, redis: &Redis, folder: &Path) -> OptionalSettings {
    let redis = format!("redis.url = '{}'\n", redis.url());
    let delay = format!("http.drain_delay = {DRAIN_DELAY}\n");
    let mut lines = String::new();
    let mut drains = false;
    for setting in [&redis, &delay] {
        if knows(program, setting, folder).await {
            lines += setting;
            drains |= setting == &delay;
        }
    }
    OptionalSettings { lines, drains }
}

/// Returns those of the high limits that the program knows.
async fn known_limits(program: &Path, folder: &Path) -> String {
    let limits = high_limits();
    if knows(program, &limits, folder).await {
        return limits;
    }
    let mut known = String::new();
    for limit in limits.lines() {
        if knows(program, limit, folder).await {
            known += limit;
            known.push('\n');
        }
    }
    known
}

/// Returns whether the program accepts these settings.
async fn knows(program: &Path, settings: &str, folder: &Path) -> bool {
    let database = format!("database.url = 'sqlite:{}/unused.db'", folder.display());
    let output = list_accounts(program, &format!("{database}\n{settings}"), folder).await;
    if output.status != 0 {
        assert!(output.stderr.contains("unknown"), "{output:?}");
    }
    output.status == 0
}

/// Runs a command of the operator with these settings.
async fn list_accounts(program: &Path, settings: &str, folder: &Path) -> ProgramOutput {
    let config = folder.join("operator.toml");
    let key = folder.join("unused.key");
    fs::write(
        &config,
        format!("key_file = '{}'\n{settings}\n", key.display()),
    )
    .unwrap();
    let mut command = Command::new(program);
    command
        .env_clear()
        .args(["account", "list", "--config"])
        .arg(config);
    ProgramOutput::of(&mut command, "").await
}

/// Writes the configuration of a host with this folder of modules, and returns its path.
fn write_config(
    folder: &Path,
    settings: &str,
    optional: &OptionalSettings,
    modules: &Path,
) -> PathBuf {
    let config = folder.join(CONFIG);
    let mut text = settings.to_owned() + &optional.lines;
    if modules != crate::modules() {
        let of_module = |line: &&str| !line.starts_with("modules.");
        let kept: Vec<_> = text.lines().filter(of_module).collect();
        text = format!("{}\n{}", kept.join("\n"), module_sections(modules));
    }
    write_private(&config, &text);
    config
}

/// Returns the sections of the built-in modules of the version in this folder, from the file to
/// start from in its documentation. A version does not know all grants of another one.
fn module_sections(modules: &Path) -> String {
    let file = modules.with_file_name("tree/docs/configuration.md");
    let text = fs::read_to_string(file).unwrap();
    let sample = text.split("```toml\n").nth(1).unwrap();
    let sample = sample.split("```").next().unwrap();
    let folder = modules.display().to_string();
    let sections = sample
        .split("\n[")
        .filter(|section| section.starts_with("modules."));
    sections
        .map(|section| format!("[{section}\n").replace("/usr/lib/latchmail/modules", &folder))
        .collect()
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

/// Starts the balancer. A check of a host can take some seconds on a busy machine.
fn start_balancer(folder: &Path, listen: &str, hosts: [&str; 2]) -> Child {
    let [one, two] = NAMES;
    let [first, second] = hosts;
    let text = format!(
        "global
    log stderr format raw local0 notice
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
