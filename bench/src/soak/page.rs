//! The page of a soak (docs/soak.md).

use std::path::Path;
use std::time::Duration;

use super::clients::OPERATIONS;
use super::growth::Growth;
use super::{Results, Sample};
use crate::measure::Timings;
use crate::page::Head;
use crate::plots::{Plot, Series, number};
use crate::report::Report;

/// Writes the page and its plots.
pub(super) fn write(results: &Results, folder: &Path) -> anyhow::Result<()> {
    let mut report = Report::default();
    load(results, &mut report)?;
    resources(results, &mut report)?;
    let head = Head {
        file: "soak.md",
        title: "Soak",
        text: "The service under half of its maximum load for a long time. The program of the benchmarks writes this page: [Benchmarks and profiles](benchmarks.md#soak).",
        command: format!("./just soak {}", results.minutes),
    };
    report.page.write(folder, &head)
}

/// Adds the latencies and the errors.
fn load(results: &Results, report: &mut Report) -> anyhow::Result<()> {
    let [maximum, rate] = results.rates.map(number);
    let calls: usize = results.samples.iter().map(|one| one.calls.len()).sum();
    report.page.section(
        "Load",
        &format!(
            "The clients started {rate} calls per second for {} minutes, which is half of the maximum of {maximum} that was measured before. Of {} calls, {} failed. \
             A latency is measured from the planned start of a call.",
            results.minutes,
            number(count(calls + results.errors())),
            results.errors(),
        ),
    );
    let latency = |share: f64| {
        series(results, &format!("p{:.0}", share * 100.0), |sample| {
            millis(sample.calls.iter().map(|(_, duration)| *duration), share)
        })
    };
    let throughput = series(results, "calls", |sample| {
        count(sample.calls.len()) / results.interval.as_secs_f64()
    });
    let failed = series(results, "errors", |sample| count(sample.errors));
    report.page.plots(
        &[
            plot("soak-latency", "Latency", "Latency (ms)", vec![latency(0.5), latency(0.99)]),
            plot("soak-calls", "Calls and errors", "Calls per second, errors", vec![throughput, failed]),
        ],
        "The latencies of all operations in each interval. The calls per second stay the same if the service keeps up with the load.",
    )?;
    let rows: Vec<_> = OPERATIONS
        .iter()
        .enumerate()
        .map(|(index, operation)| {
            let all: Vec<Duration> = results
                .samples
                .iter()
                .flat_map(|sample| &sample.calls)
                .filter(|(operation, _)| *operation == index)
                .map(|(_, duration)| *duration)
                .collect();
            let calls = number(count(all.len()));
            let timings = Timings::from(all);
            let [p50, p99, slowest] =
                [0.5, 0.99, 1.0].map(|share| number(timings.percentile(share).as_secs_f64() * 1e3));
            [(*operation).to_owned(), calls, p50, p99, slowest]
        })
        .collect();
    report.page.table(
        ["Operation", "Calls", "p50 (ms)", "p99 (ms)", "Slowest (ms)"],
        &rows,
    );
    Ok(())
}

/// Adds the memory and the descriptors.
fn resources(results: &Results, report: &mut Report) -> anyhow::Result<()> {
    report.page.section(
        "Resources",
        "The memory is the resident anonymous memory of the service. The run fails if the median of the last quarter is more than 10 % and an allowance (8 MiB, 32 \
         descriptors) above that of the second quarter.",
    );
    let memory = series(results, "memory", |sample| sample.memory / 1024.0);
    let descriptors = series(results, "descriptors", |sample| sample.descriptors);
    report.page.plots(
        &[
            plot("soak-memory", "Memory", "Memory (MiB)", vec![memory]),
            plot("soak-descriptors", "Open descriptors", "Descriptors", vec![descriptors]),
        ],
        "The memory and the open descriptors of the service at the end of each interval. Both must not grow steadily.",
    )?;
    let row = |name: &str, growth: Growth, unit: f64| {
        [
            name.to_owned(),
            number(growth.before / unit),
            number(growth.after / unit),
        ]
    };
    report.page.table(
        [
            "",
            "Median of the second quarter",
            "Median of the last quarter",
        ],
        &[
            row("Memory (MiB)", results.memory(), 1024.0),
            row("Descriptors", results.descriptors(), 1.0),
        ],
    );
    Ok(())
}

fn plot(file: &str, title: &str, y_label: &'static str, series: Vec<Series>) -> Plot {
    Plot {
        file: file.into(),
        title: title.into(),
        x_label: "Time (minutes)",
        y_label,
        log_x: false,
        log_y: false,
        series,
    }
}

fn series(results: &Results, name: &str, value: impl Fn(&Sample) -> f64) -> Series {
    let points = results
        .samples
        .iter()
        .map(|sample| (sample.at.as_secs_f64() / 60.0, value(sample)));
    Series {
        name: name.into(),
        points: points.collect(),
    }
}

fn millis(durations: impl Iterator<Item = Duration>, share: f64) -> f64 {
    Timings::from(durations.collect::<Vec<_>>())
        .percentile(share)
        .as_secs_f64()
        * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "a count of calls")]
fn count(number: usize) -> f64 {
    number as f64
}
