//! Measures the handlers of modules:
//!
//! - the CPU time and the rate of the calls of a handler that does nothing,
//! - a listing while hostile handlers run, next to the same listing without them.
//!
//! The handlers are those of `tests/fixtures/actor`.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use latchmail_tests::Actor;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::mailbox;
use crate::measure::{Call, Timings, Workload, run_interval};
use crate::messages::{Random, short_message};
use crate::report::Report;
use crate::search::cpu_time;
use crate::service::{Account, Service, built_in};
use crate::{http, imap};

/// The module whose handler does nothing.
const IDLE: &str = "idle";
/// The number of mailboxes whose events the handler gets. A module has two calls at a time.
const MAILBOXES: usize = 2;
/// Target: minimum number of calls per second on two cores.
const MIN_RATE: f64 = 1_000.0;
/// Target: maximum CPU time of the host for one call with one host function, in microseconds. The
/// time of the handler itself is included, which is negligible.
const MAX_CPU: f64 = 1_000.0;

/// The modules with hostile handlers. Together they can use all sandboxes of handlers.
const HOSTILE: [&str; 2] = ["first", "second"];
/// The number of mailboxes for which these modules act.
const OWNERS: usize = 8;
/// What the hostile handlers do (`tests/fixtures/actor`).
const ACTIONS: [&str; 4] = ["spin", "memory", "calls", "retry 1"];
/// Target: maximum ratio of the listing's p99 with hostile handlers to its p99 without them.
const MAX_RATIO: f64 = 1.5;
/// An interval is longer than in other sections by this factor, so that it contains repeated calls.
const FACTOR: u32 = 5;
/// Number of messages in the listed inbox.
const MESSAGES: usize = 200;
const LISTING: &str = "/api/v1/mail/folders/INBOX/messages?limit=50";

/// The maximum wait for calls.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The interval between two readings of the metrics, before the first call and after it.
const POLL: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];

/// The programs and components of a run.
#[derive(Clone, Copy)]
pub(crate) struct Programs<'a> {
    pub(crate) host: &'a Path,
    pub(crate) modules: &'a Path,
    pub(crate) fixtures: &'a Path,
    pub(crate) runtime: &'a Runtime,
}

/// A service with modules that have handlers.
struct HandlerService {
    service: Service,
    /// The address of the metrics.
    metrics: SocketAddr,
    _components: TempDir,
}

/// The owner of a mailbox for which hostile handlers act.
struct Owner {
    account: Account,
    imap: imap::Client,
}

impl HandlerService {
    /// Starts a service with these modules. `settings` are their own settings, in TOML.
    fn start(programs: Programs<'_>, names: &[&str], settings: &str) -> anyhow::Result<Self> {
        let components = tempfile::Builder::new()
            .prefix("lm-bench")
            .tempdir_in("/tmp")?;
        let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut more = format!(
            "[metrics]\nlisten = '{metrics}'\n[index]\nenabled = false\n\
             {}",
            built_in(programs.modules, "credentials")
        );
        for &name in names {
            let file = components.path().join(format!("{name}.wasm"));
            let path = format!("/{name}/");
            let actor = Actor {
                name,
                path: &path,
                role: "\\Inbox",
                ..Actor::default()
            };
            std::fs::write(&file, actor.component_in(programs.fixtures))?;
            writeln!(
                more,
                "[modules.{name}]\nsource = '{}'\ngrants = ['caller', 'mailbox', 'store']\npaths = ['{path}']\nscopes = ['mail:read', 'mail:write']\n\
                 [modules.{name}.config]\n{settings}",
                file.display()
            )?;
        }
        let mut host = Command::new(programs.host);
        let service = Service::start_with(&mut host, programs.modules, &more);
        Ok(Self {
            service: programs.runtime.block_on(service)?,
            metrics,
            _components: components,
        })
    }

    /// Creates an account with this name.
    fn create_account(&self, runtime: &Runtime, name: &str) -> anyhow::Result<Account> {
        runtime.block_on(self.service.create_account(name))
    }

    /// Enables or disables a module for an account.
    fn switch(&self, account: &Account, name: &str, enabled: bool) -> anyhow::Result<()> {
        let path = format!("/api/v1/profile/modules/{name}");
        let body = json!({ "enabled": enabled }).to_string();
        self.service.http_of(&account.token)?.put_ok(&path, &body)
    }

    /// Returns the sum of a metric over all series of a module.
    fn metric(&self, metric: &str, module: &str) -> anyhow::Result<f64> {
        let response = http::Client::connect(self.metrics, "")?.response("/metrics")?;
        anyhow::ensure!(response.status == 200, "the metrics cannot be read");
        let text = String::from_utf8(response.body)?;
        let (series, label) = (format!("{metric}{{"), format!("module=\"{module}\""));
        let lines = text.lines();
        let lines = lines.filter(|line| line.starts_with(&series) && line.contains(&label));
        let mut sum = 0.0;
        for line in lines {
            let (_, value) = line.rsplit_once(' ').unwrap_or_default();
            sum += value.parse::<f64>()?;
        }
        Ok(sum)
    }

    /// Returns the number of finished calls of the handlers of a module.
    fn finished(&self, module: &str) -> anyhow::Result<f64> {
        self.metric("latchmail_handler_calls_total", module)
    }
}

/// Measures the calls of a handler that calls one host function and does nothing else. The events
/// wait until the module is enabled, so that neither the mail server nor the synchronization of
/// mailboxes is measured.
pub(crate) fn measure_calls(
    programs: Programs<'_>,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let started = HandlerService::start(programs, &[IDLE], "event = 'nothing'\n")?;
    let service = &started.service;
    let mut accounts = Vec::new();
    for number in 0..MAILBOXES {
        let account = started.create_account(programs.runtime, &format!("owner{number}"))?;
        started.switch(&account, IDLE, true)?;
        accounts.push(account);
    }
    let mut operator = service.operator()?;
    operator.post_ok(&format!("/api/v1/admin/modules/{IDLE}/disable"), "")?;
    let each = workload.messages / MAILBOXES;
    for account in &accounts {
        let mut random = Random(5);
        let messages = (1..=each).map(|number| short_message("INBOX", number, &mut random));
        mailbox::append(&mut service.imap_of(account)?, "INBOX", messages)?;
        // The listing adds the messages to the change log.
        service.http_of(&account.token)?.get(LISTING)?;
    }
    operator.post_ok(&format!("/api/v1/admin/modules/{IDLE}/enable"), "")?;
    #[expect(clippy::cast_precision_loss, reason = "a count of messages")]
    let count = (each * MAILBOXES) as f64;
    let (time, cpu) = wait_for_calls(&started, count)?;
    programs.runtime.block_on(started.service.stop());
    report.rate_of(
        "handler that does nothing",
        count / time.as_secs_f64(),
        MIN_RATE,
    );
    report.value(
        "handler call with one host function, CPU time",
        cpu.as_secs_f64() * 1e6 / count,
        "µs",
        Some(MAX_CPU),
    );
    Ok(())
}

/// Waits until the module has handled this number of events. Returns the time and the CPU time of
/// the service since the last moment without a finished call.
fn wait_for_calls(started: &HandlerService, count: f64) -> anyhow::Result<(Duration, Duration)> {
    let pid = started.service.pid();
    let deadline = Instant::now() + TIMEOUT;
    let mut first = (Instant::now(), cpu_time(pid)?);
    loop {
        let finished = started.finished(IDLE)?;
        let now = (Instant::now(), cpu_time(pid)?);
        if finished >= count {
            return Ok((now.0 - first.0, now.1.saturating_sub(first.1)));
        }
        anyhow::ensure!(now.0 < deadline, "the module handled {finished} events");
        let has_begun = finished > 0.0;
        if !has_begun {
            first = now;
        }
        std::thread::sleep(POLL[usize::from(has_begun)]);
    }
}

/// Measures the listing, alternately without and with hostile handlers.
pub(crate) fn measure_hostile(
    programs: Programs<'_>,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut started = HandlerService::start(programs, &HOSTILE, "")?;
    let measured = started.service.create_measured_account();
    programs.runtime.block_on(measured)?;
    mailbox::fill(&started.service, started.service.measured(), MESSAGES, &[])?;
    let mut owners = Vec::new();
    for number in 0..OWNERS {
        let account = started.create_account(programs.runtime, &format!("owner{number}"))?;
        let imap = started.service.imap_of(&account)?;
        owners.push(Owner { account, imap });
    }
    for action in ACTIONS {
        let mut timings = [Timings::default(), Timings::default()];
        // The first interval of each side is a warm-up.
        for round in 0..=workload.rounds {
            for (side, is_hostile) in [false, true].into_iter().enumerate() {
                if is_hostile {
                    begin(&started, &mut owners, action)?;
                }
                let mut client = started.service.http()?;
                let listing: Call<'_> = Box::new(move || client.get(LISTING).map(drop));
                let began = Instant::now();
                let durations = run_interval(&mut [listing], workload.interval * FACTOR)?;
                let elapsed = began.elapsed();
                if is_hostile {
                    end(&started, &owners)?;
                }
                if round > 0 {
                    timings[side].add_interval(durations, elapsed);
                }
            }
        }
        let [alone, hostile] = timings;
        let name = format!("listing during hostile handlers: {action}");
        report.tail(&name, &alone, &hostile, Some(MAX_RATIO));
    }
    programs.runtime.block_on(started.service.stop());
    Ok(())
}

/// Lets the modules act for all owners, and waits for the first hostile call.
fn begin(started: &HandlerService, owners: &mut [Owner], action: &str) -> anyhow::Result<()> {
    let calls = || -> anyhow::Result<f64> {
        let mut calls = in_use(started)?;
        for name in HOSTILE {
            calls += started.finished(name)?;
        }
        Ok(calls)
    };
    let before = calls()?;
    for owner in owners {
        for name in HOSTILE {
            started.switch(&owner.account, name, true)?;
        }
        let message = format!(
            "From: eve@outside.test\r\nTo: {}\r\nSubject: {action}\r\n\r\nText\r\n",
            owner.account.address
        );
        owner.imap.append("INBOX", &[message.into_bytes()])?;
    }
    wait_until("there is no hostile call", || Ok(calls()? > before))
}

/// Ends all hostile calls.
fn end(started: &HandlerService, owners: &[Owner]) -> anyhow::Result<()> {
    for owner in owners {
        for name in HOSTILE {
            started.switch(&owner.account, name, false)?;
        }
    }
    wait_until("a hostile call does not end", || Ok(in_use(started)? < 1.0))
}

/// Returns the number of current hostile calls.
fn in_use(started: &HandlerService) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for name in HOSTILE {
        sum += started.metric("latchmail_sandboxes_in_use", name)?;
    }
    Ok(sum)
}

fn wait_until(
    problem: &str,
    mut condition: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !condition()? {
        anyhow::ensure!(Instant::now() < deadline, "{problem}");
        std::thread::sleep(POLL[0]);
    }
    Ok(())
}
