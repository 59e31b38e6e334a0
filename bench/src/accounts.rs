//! Measures idle accounts: the memory of each, and how listings and sign-ins depend on the number
//! of accounts.
//!
//! An idle account was registered and listed once, and its connection to the mail server is closed.
//! All registrations, listings and sign-ins use HTTP.
//!
//! The service of this section closes idle connections to the mail server after a few seconds, so
//! that the memory of the connections does not count.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::runtime::Runtime;

use crate::http::Client;
use crate::mailbox::append;
use crate::measure::{Call, Timings, Workload, measure_alone, run_interval};
use crate::memory;
use crate::messages::{Random, short_message};
use crate::plots::{Plot, Series, number};
use crate::report::Report;
use crate::service::{Account, Service, Tokens};

/// Number of accounts with messages. Their listings are measured with every number of accounts.
const LISTED: usize = 10;

/// Number of messages in the inbox of each of these accounts.
const MESSAGES: usize = 60;

/// Number of clients that register accounts. Hashing of passwords uses all cores.
const CLIENTS: usize = 8;

/// Duration of the requests before the first measurement.
const WARM_UP: Duration = Duration::from_secs(5);

/// Target: maximum memory of an idle account in bytes.
const MAX_MEMORY: f64 = 4_000.0;

/// The time after which the service closes an idle connection to the mail server, in seconds.
const IDLE_TIMEOUT: &str = "2";

/// Maximum time until all connections to the mail server are closed.
const CLOSE_TIMEOUT: Duration = Duration::from_mins(1);

const LISTING: &str = "/api/v1/mail/folders/INBOX/messages?limit=50";

/// The figures with one number of accounts.
struct Figures {
    accounts: usize,
    /// Anonymous memory of the service in bytes.
    memory: f64,
    /// Listings of the accounts with messages.
    listing: Timings,
    /// Sign-ins of all accounts in turn.
    sign_in: Timings,
}

/// Registers the accounts in steps, and measures after each step.
pub(crate) fn measure(
    host: &Path,
    modules: &Path,
    runtime: &Runtime,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    // The port is free. No other program allocates loopback ports of this machine during a run.
    let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let cache = tempfile::Builder::new()
        .prefix("lm-bench")
        .tempdir_in("/tmp")?;
    let service = runtime.block_on(Service::start_compiled(
        host,
        &[
            ("LATCHMAIL_IMAP__IDLE_TIMEOUT", IDLE_TIMEOUT.into()),
            ("LATCHMAIL_METRICS__LISTEN", metrics.to_string()),
        ],
        modules,
        "",
        cache.path(),
    ))?;
    let listed = (0..LISTED)
        .map(|number| {
            let account = runtime.block_on(service.create_account(&name(number)))?;
            fill(&service, &account)?;
            Ok(account)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    warm_up(&service, &listed)?;

    let mut figures = Vec::new();
    let mut registered = LISTED;
    for accounts in workload.idle_accounts {
        let began = Instant::now();
        register(&service, registered..accounts)?;
        let elapsed = began.elapsed();
        if accounts > registered {
            let name = format!(
                "registration and first listing, {CLIENTS} clients, up to {accounts} accounts"
            );
            let rate = count(accounts - registered) / elapsed.as_secs_f64();
            report.value(&name, rate, "/s", None);
        }
        registered = accounts;
        let memory = settled(&service, metrics)? * 1024.0;
        figures.push(Figures {
            accounts,
            memory,
            listing: listings(&service, &listed, workload)?,
            sign_in: sign_ins(&service, accounts, workload)?,
        });
    }
    runtime.block_on(service.stop());
    present(&figures, report)
}

fn name(number: usize) -> String {
    format!("idle{number}")
}

/// Stores the messages of an account.
fn fill(service: &Service, account: &Account) -> anyhow::Result<()> {
    let mut random = Random(5);
    let messages = (1..=MESSAGES).map(|number| short_message("INBOX", number, &mut random));
    append(&mut service.imap_of(account)?, "INBOX", messages)
}

/// Signs in and lists with the number of clients of the registration. The first concurrent requests
/// allocate memory that does not depend on the number of accounts, for example buffers for hashing,
/// sandboxes and caches of the database.
fn warm_up(service: &Service, accounts: &[Account]) -> anyhow::Result<()> {
    let mut calls = (0..CLIENTS)
        .map(|number| -> anyhow::Result<Call<'_>> {
            let account = number % accounts.len();
            let mut client = service.http_of(&accounts[account].token)?;
            Ok(Box::new(move || {
                Tokens::sign_in(&mut client, &name(account))?;
                client.get(LISTING).map(drop)
            }))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    run_interval(&mut calls, WARM_UP).map(drop)
}

/// Registers accounts and lists the inbox of each.
fn register(service: &Service, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    let next = AtomicUsize::new(numbers.start);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= numbers.end {
                            return Ok(());
                        }
                        let token = service.register(&name(number))?;
                        service.http_of(&token)?.get(LISTING)?;
                    }
                })
            })
            .collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().expect("a client panicked"))
    })
}

/// Measures listings of the accounts in turn.
fn listings(
    service: &Service,
    accounts: &[Account],
    workload: &Workload,
) -> anyhow::Result<Timings> {
    let mut clients = accounts
        .iter()
        .map(|account| service.http_of(&account.token))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut next = 0;
    let call: Call<'_> = Box::new(move || {
        next = (next + 1) % clients.len();
        clients[next].get(LISTING).map(drop)
    });
    measure_alone(workload, &mut [call])
}

/// Measures sign-ins of the first `accounts` accounts in turn.
fn sign_ins(service: &Service, accounts: usize, workload: &Workload) -> anyhow::Result<Timings> {
    let mut client = service.http_of("")?;
    // The steps are spread over all accounts.
    let step = (accounts / 97).max(1);
    let mut next = 0;
    let call: Call<'_> = Box::new(move || {
        next = (next + step) % accounts;
        Tokens::sign_in(&mut client, &name(next)).map(drop)
    });
    measure_alone(workload, &mut [call])
}

/// Waits until the pool has no connections. Returns the settled memory in KiB.
fn settled(service: &Service, metrics: SocketAddr) -> anyhow::Result<f64> {
    let deadline = Instant::now() + CLOSE_TIMEOUT;
    while open_connections(metrics)? > 0.0 {
        anyhow::ensure!(
            Instant::now() < deadline,
            "the service did not close its idle connections"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    memory::settled(service.pid())
}

/// Returns the number of connections to the mail server.
fn open_connections(metrics: SocketAddr) -> anyhow::Result<f64> {
    let response = Client::connect(metrics, "")?.response("/metrics")?;
    let text = String::from_utf8(response.body)?;
    text.lines()
        .find_map(|line| line.strip_prefix("latchmail_imap_connections_open "))
        .and_then(|value| value.parse().ok())
        .context("the metrics have no number of connections")
}

/// Adds the rows of the table, the plots and the tables.
fn present(figures: &[Figures], report: &mut Report) -> anyhow::Result<()> {
    let [first, .., last] = figures else {
        anyhow::bail!("there are too few numbers of accounts");
    };
    for one in &figures[1..] {
        let target = (one.accounts == last.accounts).then_some(MAX_MEMORY);
        let name = format!("memory: idle account, of {}", one.accounts);
        report.value(&name, one.memory_since(first), "bytes", target);
    }
    for (operation, times) in OPERATIONS {
        let [with_all, with_first] = [last, first].map(|one| millis(times(one), 0.5));
        let [all, few] = [last.accounts, first.accounts];
        let name = format!("{operation} with {all} and {few} accounts, p50");
        report.value(&name, with_all / with_first, "×", None);
    }
    report.page.section(
        "Accounts",
        "An idle account was registered and listed once, and its connection to the mail server is closed.",
    );
    report.page.plots(
        &[memory_plot(figures, first), latency_plot(figures)],
        "The anonymous memory of the service grows by this amount with the number of idle accounts; the target is 4,000 bytes for each. It \
         includes memory that the service has freed and that its allocator has not yet returned to the system, so it can be higher with fewer accounts. The \
         latencies are those of listings of the same 10 accounts and of sign-ins of all accounts in turn, with one client; a sign-in consists mostly of the password hash.",
    )?;
    let rows: Vec<_> = figures
        .iter()
        .map(|one| {
            let each = if one.accounts == first.accounts {
                String::new()
            } else {
                number(one.memory_since(first))
            };
            let [listing, sign_in] = OPERATIONS
                .map(|(_, times)| [0.5, 0.99].map(|share| number(millis(times(one), share))));
            let ([listing_p50, listing_p99], [sign_in_p50, sign_in_p99]) = (listing, sign_in);
            [
                number(count(one.accounts)),
                number(one.memory / 1e6),
                each,
                listing_p50,
                listing_p99,
                sign_in_p50,
                sign_in_p99,
            ]
        })
        .collect();
    report.page.table(
        [
            "Accounts",
            "Memory (MB)",
            "Each more than the first (bytes)",
            "Listing p50 (ms)",
            "p99 (ms)",
            "Sign-in p50 (ms)",
            "p99 (ms)",
        ],
        &rows,
    );
    Ok(())
}

/// Returns the timings of an operation.
type Selector = fn(&Figures) -> &Timings;

/// The operations that are measured with each number of accounts.
const OPERATIONS: [(&str, Selector); 2] = [
    ("listing of 50", |one| &one.listing),
    ("sign-in", |one| &one.sign_in),
];

impl Figures {
    /// Returns the memory that each account has added since `first`, in bytes.
    fn memory_since(&self, first: &Self) -> f64 {
        (self.memory - first.memory) / count(self.accounts - first.accounts)
    }
}

fn memory_plot(figures: &[Figures], first: &Figures) -> Plot {
    let series = |name: &str, value: &dyn Fn(&Figures) -> f64| Series {
        name: name.into(),
        points: figures
            .iter()
            .map(|one| (count(one.accounts), value(one) / 1e6))
            .collect(),
    };
    Plot {
        file: "memory-accounts".into(),
        title: "Memory of idle accounts".into(),
        x_label: "Accounts",
        y_label: "Increase of memory (MB)",
        log_x: false,
        log_y: false,
        series: vec![
            series("service", &|one| one.memory - first.memory),
            series("target", &|one| {
                count(one.accounts - first.accounts) * MAX_MEMORY
            }),
        ],
    }
}

fn latency_plot(figures: &[Figures]) -> Plot {
    let mut series = Vec::new();
    for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
        for (operation, times) in OPERATIONS {
            series.push(Series {
                name: format!("{operation}, {label}"),
                points: figures
                    .iter()
                    .map(|one| (count(one.accounts), millis(times(one), share)))
                    .collect(),
            });
        }
    }
    Plot {
        file: "growth-accounts".into(),
        title: "Latency and number of accounts".into(),
        x_label: "Accounts",
        y_label: "Latency (ms)",
        log_x: true,
        log_y: true,
        series,
    }
}

fn millis(times: &Timings, share: f64) -> f64 {
    times.percentile(share).as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "a count of accounts")]
fn count(accounts: usize) -> f64 {
    accounts as f64
}
