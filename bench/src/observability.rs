//! Measures the cost of metrics and traces: the listings of a host whose metrics are scraped every
//! second and which sends all traces to a collector, next to those of a host without both. Both
//! hosts are processes of the same program, each with its own mail servers. The collector only
//! counts the bytes that it receives.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::http;
use crate::mailbox;
use crate::measure::{Call, Timings, Workload, compare};
use crate::operations::CLIENTS;
use crate::operations::FREQUENT;
use crate::plots::number;
use crate::report::Report;
use crate::service::Service;

/// Number of pairs of samples.
const PAIRS: usize = 20;

/// The 97.5 % quantile of Student's t distribution with 19 degrees of freedom, for a two-sided
/// interval of 95 %.
const T: f64 = 2.093;

/// Target: maximum upper bound of the overhead in percent.
const MAX_OVERHEAD: f64 = 5.0;

/// Number of messages in the inbox.
const MESSAGES: usize = 200;

/// The time between two scrapes.
const SCRAPE: Duration = Duration::from_secs(1);

/// Measures the overhead.
pub(crate) fn measure(
    host: &Path,
    modules: &Path,
    runtime: &Runtime,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (collector, received) = start_collector()?;
    let observed = format!(
        "[metrics]\nlisten = '{metrics}'\n[telemetry]\notlp_endpoint = 'http://{collector}'\n"
    );
    let [plain, observed] = ["", &observed].map(|more| {
        runtime.block_on(async {
            let mut service = Service::start_with(&mut Command::new(host), modules, more).await?;
            service.create_measured_account().await?;
            anyhow::Ok(service)
        })
    });
    let services = [plain?, observed?];
    let (mut left, mut right) = (listings(&services[0])?, listings(&services[1])?);
    // A sample is the mean of many short intervals, so that disturbances of the machine affect both
    // samples of a pair.
    let intervals_per_sample = workload.rounds * 3 / 2;
    let workload = Workload {
        rounds: PAIRS * intervals_per_sample,
        ..*workload
    };
    let stop = AtomicBool::new(false);
    let [plain, observed] = std::thread::scope(|scope| {
        let scraper = scope.spawn(|| scrape(metrics, &stop));
        let measured = compare(&workload, &mut left, &mut right);
        stop.store(true, Ordering::Relaxed);
        scraper.join().expect("the scraper panicked")?;
        measured
    })?;
    for service in services {
        runtime.block_on(service.stop());
    }
    anyhow::ensure!(
        received.load(Ordering::Relaxed) > 0,
        "the host sent no spans"
    );
    show(&plain, &observed, report);
    Ok(())
}

/// Fills the mailbox of the measured account, and returns a listing for each client.
fn listings(service: &Service) -> anyhow::Result<Vec<Call<'static>>> {
    let account = service.measured();
    let mailbox = mailbox::fill(service, account, MESSAGES, &[])?;
    (0..CLIENTS)
        .map(|_| FREQUENT[1].http_call(service, account, &mailbox))
        .collect()
}

/// Requests the metrics every second until `stop` is set.
fn scrape(address: SocketAddr, stop: &AtomicBool) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let length = http::Client::connect(address, "")?.get("/metrics")?;
        anyhow::ensure!(length > 0, "there are no metrics");
        std::thread::sleep(SCRAPE);
    }
    Ok(())
}

/// Starts a collector that discards the spans. Returns its address, and the number of bytes that it
/// has received.
fn start_collector() -> io::Result<(SocketAddr, Arc<AtomicU64>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let received = Arc::<AtomicU64>::default();
    let counter = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counter = Arc::clone(&counter);
            // An error means that the host has closed the connection.
            std::thread::spawn(move || discard(stream, &counter));
        }
    });
    Ok((address, received))
}

/// Responds to the HTTP requests of one connection, and counts the bytes of their bodies.
fn discard(stream: TcpStream, counter: &AtomicU64) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 0 {
        let header = line.trim_end().to_ascii_lowercase();
        line.clear();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        if header.is_empty() {
            let body = io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
            counter.fetch_add(body, Ordering::Relaxed);
            reader
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    }
    Ok(())
}

fn show(plain: &Timings, observed: &Timings, report: &mut Report) {
    let intervals_per_sample = plain.rates().len() / PAIRS;
    let plain_samples = plain.rates().chunks(intervals_per_sample);
    let overheads: Vec<f64> = plain_samples
        .zip(observed.rates().chunks(intervals_per_sample))
        .map(|(plain, observed)| {
            (1.0 - observed.iter().sum::<f64>() / plain.iter().sum::<f64>()) * 100.0
        })
        .collect();
    let (mean, bound) = mean_and_bound(&overheads);
    report.value("observability, mean overhead of listings", mean, "%", None);
    report.value(
        "observability, upper bound of the overhead",
        bound,
        "%",
        Some(MAX_OVERHEAD),
    );
    report.page.section(
        "Cost of metrics and traces",
        "Listings of 50 messages with eight clients, in 20 pairs of samples: one sample of a host whose metrics are scraped every second and which sends the traces of \
         all requests to a collector on this machine, and one of a host without both. A sample is the mean of twelve intervals of 0.4 s, which alternate with those of \
         the other host. The bound is the upper end of the two-sided 95 % interval of the mean (Student's t).",
    );
    report.page.table(
        ["", "Value"],
        &[
            ["Listings/s without".into(), number(plain.rate())],
            ["Listings/s with".into(), number(observed.rate())],
            ["Mean overhead (%)".into(), number(mean)],
            ["Upper bound (%)".into(), number(bound)],
        ],
    );
}

/// Returns the mean of the values, and the upper end of its two-sided 95 % interval. There are
/// [`PAIRS`] values.
#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn mean_and_bound(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    (mean, mean + T * deviation / count.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_depends_on_the_deviation() {
        assert_eq!(mean_and_bound(&[2.0; PAIRS]), (2.0, 2.0));
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let (mean, bound) = mean_and_bound(&values);
        // scipy.stats.t.interval(0.95, 19, loc=10.5, scale=scipy.stats.sem(range(1, 21))) returns
        // 7.7311 and 13.2689.
        assert!((mean - 10.5).abs() < 1e-9 && (bound - 13.2689).abs() < 1e-3);
    }
}
