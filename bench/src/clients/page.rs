//! The plots and the table of an operation.

use super::{Case, Figures};
use crate::measure::Timings;
use crate::plots::{Plot, Series, number};
use crate::report::Report;

/// Adds the plots and the table of a case to the page.
pub(super) fn show(
    case: &Case<'_>,
    figures: &[Figures],
    report: &mut Report,
) -> anyhow::Result<()> {
    let counterpart = case.counterpart.as_ref().map(|(name, _)| *name);
    let sides = || {
        let route = figures.iter().map(|one| (one.clients, &one.route));
        let raw = figures
            .iter()
            .filter_map(|one| Some((one.clients, one.counterpart.as_ref()?)));
        let raw = counterpart.map(|name| (name, raw.collect::<Vec<_>>()));
        [("service", route.collect::<Vec<_>>())]
            .into_iter()
            .chain(raw)
    };
    let series = |suffix: &str, value: &dyn Fn(&Timings) -> f64| -> Vec<Series> {
        sides()
            .map(|(name, figures)| Series {
                name: format!("{name}{suffix}"),
                points: figures
                    .iter()
                    .map(|(clients, times)| (count(*clients), value(times)))
                    .collect(),
            })
            .collect()
    };
    let plot = |kind: &str, y_label, log_y, series| Plot {
        file: format!("{}-{kind}", case.file),
        title: format!("{}: {kind}", case.name),
        x_label: "Clients",
        y_label,
        log_x: true,
        log_y,
        series,
    };
    let mut latencies = series(" p50", &|times| times.millis(0.5));
    latencies.extend(series(" p99", &|times| times.millis(0.99)));
    let rates = series("", &Timings::rate);
    report.page.subsection(case.name);
    report.page.plots(
        &[
            plot("throughput", "Requests per second", false, rates),
            plot("latency", "Latency (ms)", true, latencies),
        ],
        case.text,
    )?;
    let mut rows = Vec::new();
    for index in 0..figures.len() {
        for (name, figures) in sides() {
            let (clients, times) = figures[index];
            let [p50, p99] = [0.5, 0.99].map(|share| times.millis(share));
            rows.push([
                format!("{clients}, {name}"),
                number(p50),
                number(p99),
                number(p99 / p50),
                number(times.rate()),
                times.errors.to_string(),
            ]);
        }
    }
    let header = [
        "Clients",
        "p50 (ms)",
        "p99 (ms)",
        "p99 / p50",
        "Requests/s",
        "Errors",
    ];
    report.page.table(header, &rows);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn count(clients: usize) -> f64 {
    clients as f64
}
