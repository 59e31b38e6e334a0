//! The results of the benchmarks, as a table and as JSON.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::measure::Timings;
use crate::page::{Page, output_of};

/// The columns of the table of all results.
pub(crate) const COLUMNS: [&str; 5] = ["", "counterpart", "service", "result", "target"];

/// The results of the finished benchmarks.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    pub(crate) page: Page,
}

/// One row of the table.
#[derive(Debug)]
struct Row {
    name: String,
    /// The figures of the counterpart and of the service, as text.
    figures: [String; 2],
    /// The value that is compared with the target.
    result: f64,
    unit: &'static str,
    target: Option<Target>,
    json: Value,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Row {
    fn misses_target(&self) -> bool {
        match self.target {
            None => false,
            // A result that is not a number misses the target.
            Some(Target::AtMost(max)) => self.result.is_nan() || self.result > max,
            Some(Target::AtLeast(min)) => self.result.is_nan() || self.result < min,
        }
    }

    /// Returns the name, the figures of the counterpart and of the service, the result, and the
    /// target as text.
    fn cells(&self) -> [String; 5] {
        let verdict = if self.misses_target() {
            "MISSED"
        } else {
            "met"
        };
        let target = match self.target {
            None => String::new(),
            Some(Target::AtMost(max)) => format!("at most {max}  {verdict}"),
            Some(Target::AtLeast(min)) => format!("at least {min}  {verdict}"),
        };
        let [counterpart, service] = self.figures.clone();
        let result = format!("{:.2} {}", self.result, self.unit);
        [self.name.clone(), counterpart, service, result, target]
    }
}

impl Report {
    /// Adds the p50 latency of a route with one client and of its counterpart.
    pub(crate) fn latency(&mut self, name: &str, raw: &Timings, route: &Timings, max: Option<f64>) {
        self.percentiles(name, [("p50", 0.5), ("p99", 0.99)], raw, route, max);
    }

    /// Adds the p99 latency of a route and of its counterpart.
    pub(crate) fn tail(&mut self, name: &str, raw: &Timings, route: &Timings, max: Option<f64>) {
        self.percentiles(name, [("p99", 0.99), ("p50", 0.5)], raw, route, max);
    }

    /// Adds the ratio of the first percentile. The second one is shown in parentheses.
    fn percentiles(
        &mut self,
        name: &str,
        [(label, share), (other_label, other_share)]: [(&str, f64); 2],
        raw: &Timings,
        route: &Timings,
        max: Option<f64>,
    ) {
        self.rows.push(Row {
            name: format!("{name}, {label}"),
            figures: [raw, route].map(|side| {
                format!(
                    "{} ({other_label} {})",
                    micros(side.percentile(share)),
                    micros(side.percentile(other_share))
                )
            }),
            result: route.percentile(share).as_secs_f64() / raw.percentile(share).as_secs_f64(),
            unit: "×",
            target: max.map(Target::AtMost),
            json: json!({ "raw": times(raw), "route": times(route) }),
        });
    }

    /// Adds the throughput of a route with several clients and its counterpart.
    pub(crate) fn throughput(
        &mut self,
        name: &str,
        clients: usize,
        raw: &Timings,
        route: &Timings,
        min: Option<f64>,
    ) {
        self.rows.push(Row {
            name: with_clients(name, clients),
            figures: [raw, route].map(pace),
            result: route.rate() / raw.rate(),
            unit: "×",
            target: min.map(Target::AtLeast),
            json: json!({ "raw": times(raw), "route": times(route) }),
        });
    }

    /// Adds the ratio of the p99 latency of a route to its p50 latency, with several clients.
    pub(crate) fn spread(&mut self, name: &str, clients: usize, route: &Timings, max: f64) {
        let [p50, p99] = [0.5, 0.99].map(|share| route.percentile(share).as_secs_f64());
        self.rows.push(Row {
            name: format!("{}, p99 / p50", with_clients(name, clients)),
            figures: [String::new(), pace(route)],
            result: p99 / p50,
            unit: "×",
            target: Some(Target::AtMost(max)),
            json: json!({ "route": times(route) }),
        });
    }

    /// Adds the p99 latency of a route with several clients in milliseconds.
    pub(crate) fn tail_of(&mut self, name: &str, clients: usize, route: &Timings, max: f64) {
        self.rows.push(Row {
            name: format!("{}, p99", with_clients(name, clients)),
            figures: [String::new(), pace(route)],
            result: route.millis(0.99),
            unit: "ms",
            target: Some(Target::AtMost(max)),
            json: json!({ "route": times(route) }),
        });
    }

    /// Adds the number of failed calls of a route with several clients. The target is that no call
    /// fails.
    pub(crate) fn failures(&mut self, name: &str, clients: usize, route: &Timings) {
        #[expect(clippy::cast_precision_loss, reason = "a count of calls")]
        let errors = route.errors as f64;
        self.rows.push(Row {
            name: with_clients(name, clients),
            figures: [String::new(), pace(route)],
            result: errors,
            unit: "errors",
            target: Some(Target::AtMost(0.0)),
            json: json!({ "route": times(route) }),
        });
    }

    /// Adds the time that the sandbox adds to a call, in microseconds.
    pub(crate) fn sandbox(&mut self, name: &str, native: &Timings, sandboxed: &Timings, max: f64) {
        let [sandboxed_p50, native_p50] =
            [sandboxed, native].map(|side| side.percentile(0.5).as_secs_f64());
        self.rows.push(Row {
            name: name.into(),
            figures: [native, sandboxed].map(|side| micros(side.percentile(0.5))),
            result: (sandboxed_p50 - native_p50) * 1e6,
            unit: "µs more",
            target: Some(Target::AtMost(max)),
            json: json!({ "native": times(native), "sandboxed": times(sandboxed) }),
        });
    }

    /// Adds the slowest call of an operation without a counterpart.
    pub(crate) fn slowest(&mut self, name: &str, times: &Timings, max: Option<Duration>) {
        let slowest = times.percentile(1.0);
        self.rows.push(Row {
            name: format!("{name}, slowest"),
            figures: [
                String::new(),
                format!(
                    "{} (p50 {})",
                    micros(slowest),
                    micros(times.percentile(0.5))
                ),
            ],
            result: slowest.as_secs_f64() * 1e3,
            unit: "ms",
            target: max.map(|max| Target::AtMost(max.as_secs_f64() * 1e3)),
            json: json!({ "times": self::times(times) }),
        });
    }

    /// Adds a count of `unit` without a counterpart and a target.
    pub(crate) fn count(&mut self, name: &str, count: usize, unit: &'static str) {
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        let result = count as f64;
        self.rows.push(Row {
            name: name.into(),
            figures: [String::new(), count.to_string()],
            result,
            unit,
            target: None,
            json: json!({ "count": count }),
        });
    }

    /// Adds the p50 and p99 latencies of a route with one client, in milliseconds. `max` contains
    /// their targets.
    pub(crate) fn latencies(
        &mut self,
        name: &str,
        raw: Option<&Timings>,
        route: &Timings,
        max: [f64; 2],
    ) {
        for ((label, share), max) in [("p50", 0.5), ("p99", 0.99)].into_iter().zip(max) {
            let percentile = route.percentile(share);
            let counterpart = raw.map(|raw| micros(raw.percentile(share)));
            self.rows.push(Row {
                name: format!("{name}, {label}"),
                figures: [counterpart.unwrap_or_default(), micros(percentile)],
                result: percentile.as_secs_f64() * 1e3,
                unit: "ms",
                target: Some(Target::AtMost(max)),
                json: json!({ "raw": raw.map(times), "route": times(route) }),
            });
        }
    }

    /// Adds the throughput of a route with several clients, without a counterpart.
    pub(crate) fn rate(&mut self, name: &str, clients: usize, route: &Timings, min: Option<f64>) {
        self.rows.push(Row {
            name: with_clients(name, clients),
            figures: [String::new(), pace(route)],
            result: route.rate(),
            unit: "/s",
            target: min.map(Target::AtLeast),
            json: json!({ "route": times(route) }),
        });
    }

    /// Adds a value of `unit` without a counterpart.
    pub(crate) fn value(&mut self, name: &str, value: f64, unit: &'static str, max: Option<f64>) {
        self.rows.push(Row {
            name: name.into(),
            figures: [String::new(), format!("{value:.2} {unit}")],
            result: value,
            unit,
            target: max.map(Target::AtMost),
            json: json!({ "value": value }),
        });
    }

    /// Adds a number per second that must be at least `min`, without a counterpart.
    pub(crate) fn rate_of(&mut self, name: &str, rate: f64, min: f64) {
        self.rows.push(Row {
            name: name.into(),
            figures: [String::new(), format!("{rate:.0}/s")],
            result: rate,
            unit: "/s",
            target: Some(Target::AtLeast(min)),
            json: json!({ "per_second": rate }),
        });
    }

    /// Adds an amount of memory in KiB.
    pub(crate) fn memory(&mut self, name: &str, kib: f64, max: Option<f64>) {
        self.rows.push(Row {
            name: format!("memory: {name}"),
            figures: [String::new(), format!("{kib:.0} KiB")],
            result: kib / 1024.0,
            unit: "MiB",
            target: max.map(|max| Target::AtMost(max / 1024.0)),
            json: json!({ "kib": kib }),
        });
    }

    /// Returns whether a target was missed.
    pub(crate) fn has_missed_target(&self) -> bool {
        self.rows.iter().any(Row::misses_target)
    }

    /// Returns the table: a row for each result, with the columns of [`COLUMNS`].
    fn cells(&self) -> Vec<[String; 5]> {
        self.rows.iter().map(Row::cells).collect()
    }

    /// Adds the table of all results to the page.
    pub(crate) fn add_results(&mut self) {
        self.page.section(
            "All results",
            "The results of all sections, also of those without plots. A ratio (×) is that of the service to its counterpart.",
        );
        let cells = self.cells();
        self.page.table(COLUMNS, &cells);
    }

    /// Prints the table.
    #[expect(
        clippy::print_stdout,
        reason = "the table is the output of the program"
    )]
    pub(crate) fn print(&self) {
        for [name, counterpart, service, result, target] in
            std::iter::once(COLUMNS.map(String::from)).chain(self.cells())
        {
            println!("{name:<54} {counterpart:>32} {service:>32} {result:>16}  {target}");
        }
    }

    /// Writes the results as JSON to a file named after the time. Prints large differences from the
    /// previous run.
    #[expect(clippy::print_stdout, reason = "the path is output of the program")]
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        for line in self.differences(folder)? {
            println!("{line}");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({ "what": row.name, "result": row.result, "unit": row.unit, "missed": row.misses_target(), "measured": row.json })
            })
            .collect();
        let all = json!({
            "time": now,
            "commit": output_of("git", &["describe", "--always", "--dirty"]),
            "rustc": output_of("rustc", &["--version"]),
            "kernel": output_of("uname", &["-sr"]),
            "dovecot": output_of("dovecot", &["--version"]),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "rows": rows,
        });
        let file = folder.join(format!("{now}.json"));
        fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
        println!("results written to {}", file.display());
        Ok(())
    }
}

impl Report {
    /// Returns the results that are below 0.8 times or at least 1.25 times those of the newest
    /// earlier run.
    fn differences(&self, folder: &Path) -> anyhow::Result<Vec<String>> {
        let mut earlier: Vec<_> = fs::read_dir(folder)?
            .map(|file| Ok(file?.path()))
            .collect::<anyhow::Result<_>>()?;
        earlier.sort();
        let Some(last) = earlier.pop() else {
            return Ok(Vec::new());
        };
        let last: Value = serde_json::from_slice(&fs::read(last)?)?;
        let rows = last["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let previous = |name: &str| {
            let row = rows.iter().find(|row| row["what"] == name)?;
            row["result"].as_f64()
        };
        Ok(self
            .rows
            .iter()
            .filter_map(|row| {
                let previous = previous(&row.name)?;
                let change = row.result / previous;
                // The ratio of two counts of zero is not a number.
                (!change.is_nan() && !(0.8..1.25).contains(&change)).then(|| {
                    format!(
                        "{}: {:.2} {} (previous run: {previous:.2})",
                        row.name, row.result, row.unit
                    )
                })
            })
            .collect())
    }
}

fn times(times: &Timings) -> Value {
    json!({
        "p50_us": times.percentile(0.5).as_secs_f64() * 1e6,
        "p99_us": times.percentile(0.99).as_secs_f64() * 1e6,
        "per_second": times.rate(),
        "errors": times.errors,
    })
}

/// Returns the calls per second, the latencies in milliseconds, and the number of errors if there
/// are any.
fn pace(times: &Timings) -> String {
    let [p50, p99] = [0.5, 0.99].map(|share| times.percentile(share).as_secs_f64() * 1e3);
    let errors = match times.errors {
        0 => String::new(),
        errors => format!(", {errors} errors"),
    };
    format!(
        "{:.0}/s (p50 {p50:.1}, p99 {p99:.1} ms{errors})",
        times.rate()
    )
}

/// Returns the name of a row with the number of clients.
fn with_clients(name: &str, clients: usize) -> String {
    let noun = if clients == 1 { "client" } else { "clients" };
    format!("{name}, {clients} {noun}")
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}
