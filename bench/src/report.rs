//! The results: a table for people, and JSON for comparing runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::measure::Times;

/// The results of the finished benchmarks.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One comparison.
#[derive(Debug)]
struct Row {
    what: String,
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
    fn misses(&self) -> bool {
        match self.target {
            None => false,
            // A result that is not a number misses the target.
            Some(Target::AtMost(most)) => self.result.is_nan() || self.result > most,
            Some(Target::AtLeast(least)) => self.result.is_nan() || self.result < least,
        }
    }
}

impl Report {
    /// Adds the latency of a route with one client and its counterpart.
    pub(crate) fn latency(&mut self, what: &str, raw: &Times, route: &Times, most: Option<f64>) {
        let ratio = route.percentile(0.5).as_secs_f64() / raw.percentile(0.5).as_secs_f64();
        self.rows.push(Row {
            what: format!("{what}, p50"),
            figures: [raw, route].map(|side| {
                format!(
                    "{} (p99 {})",
                    micros(side.percentile(0.5)),
                    micros(side.percentile(0.99))
                )
            }),
            result: ratio,
            unit: "×",
            target: most.map(Target::AtMost),
            json: json!({ "raw": times(raw), "route": times(route) }),
        });
    }

    /// Adds the slowest calls of a route and its counterpart.
    pub(crate) fn tail(&mut self, what: &str, raw: &Times, route: &Times, most: Option<f64>) {
        let ratio = route.percentile(0.99).as_secs_f64() / raw.percentile(0.99).as_secs_f64();
        self.rows.push(Row {
            what: format!("{what}, p99"),
            figures: [raw, route].map(|side| {
                format!(
                    "{} (p50 {})",
                    micros(side.percentile(0.99)),
                    micros(side.percentile(0.5))
                )
            }),
            result: ratio,
            unit: "×",
            target: most.map(Target::AtMost),
            json: json!({ "raw": times(raw), "route": times(route) }),
        });
    }

    /// Adds the throughput of a route with several clients and its counterpart.
    pub(crate) fn throughput(
        &mut self,
        what: &str,
        clients: usize,
        raw: &Times,
        route: &Times,
        least: Option<f64>,
    ) {
        self.rows.push(Row {
            what: format!("{what}, {clients} clients"),
            figures: [raw, route].map(|side| {
                format!(
                    "{:.0}/s (p99 {})",
                    side.rate(),
                    micros(side.percentile(0.99))
                )
            }),
            result: route.rate() / raw.rate(),
            unit: "of it",
            target: least.map(Target::AtLeast),
            json: json!({ "raw": times(raw), "route": times(route) }),
        });
    }

    /// Adds the time that the sandbox adds to a call, in microseconds.
    pub(crate) fn sandbox(&mut self, what: &str, native: &Times, sandboxed: &Times, most: f64) {
        let [inside, outside] = [sandboxed, native].map(|side| side.percentile(0.5).as_secs_f64());
        self.rows.push(Row {
            what: what.into(),
            figures: [native, sandboxed].map(|side| micros(side.percentile(0.5))),
            result: (inside - outside) * 1e6,
            unit: "µs more",
            target: Some(Target::AtMost(most)),
            json: json!({ "native": times(native), "sandboxed": times(sandboxed) }),
        });
    }

    /// Adds the slowest call of an operation without a counterpart.
    pub(crate) fn slowest(&mut self, what: &str, times: &Times, most: Option<Duration>) {
        let slowest = times.percentile(1.0);
        self.rows.push(Row {
            what: format!("{what}, slowest"),
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
            target: most.map(|most| Target::AtMost(most.as_secs_f64() * 1e3)),
            json: json!({ "times": self::times(times) }),
        });
    }

    /// Adds an amount of memory in KiB.
    pub(crate) fn memory(&mut self, what: &str, kib: f64, most: Option<f64>) {
        self.rows.push(Row {
            what: format!("memory: {what}"),
            figures: [String::new(), format!("{kib:.0} KiB")],
            result: kib / 1024.0,
            unit: "MiB",
            target: most.map(|most| Target::AtMost(most / 1024.0)),
            json: json!({ "kib": kib }),
        });
    }

    /// Returns whether a target was missed.
    pub(crate) fn misses(&self) -> bool {
        self.rows.iter().any(Row::misses)
    }

    /// Prints the table.
    #[expect(
        clippy::print_stdout,
        reason = "the table is the output of the program"
    )]
    pub(crate) fn print(&self) {
        println!(
            "{:<44} {:>26} {:>26} {:>16}  target",
            "", "counterpart", "service", "result"
        );
        for row in &self.rows {
            let target = match row.target {
                None => String::new(),
                Some(Target::AtMost(most)) => format!("at most {most}"),
                Some(Target::AtLeast(least)) => format!("at least {least}"),
            };
            let verdict = match row.target {
                None => "",
                Some(_) if row.misses() => "  MISSED",
                Some(_) => "  met",
            };
            let [raw, own] = &row.figures;
            let result = format!("{:.2} {}", row.result, row.unit);
            println!(
                "{:<44} {raw:>26} {own:>26} {result:>16}  {target}{verdict}",
                row.what
            );
        }
    }

    /// Writes the results as JSON to a file named after the time. Prints large differences from the previous run.
    #[expect(clippy::print_stdout, reason = "the path is output of the program")]
    pub(crate) fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        for line in self.differences(folder)? {
            println!("{line}");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({ "what": row.what, "result": row.result, "unit": row.unit, "missed": row.misses(), "measured": row.json })
            })
            .collect();
        let all = json!({
            "time": now,
            "commit": said("git", &["describe", "--always", "--dirty"]),
            "rustc": said("rustc", &["--version"]),
            "kernel": said("uname", &["-sr"]),
            "dovecot": said("dovecot", &["--version"]),
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
    /// Returns the results that are below 0.8 times or at least 1.25 times those of the newest earlier run.
    fn differences(&self, folder: &Path) -> anyhow::Result<Vec<String>> {
        let mut before: Vec<_> = fs::read_dir(folder)?
            .map(|file| Ok(file?.path()))
            .collect::<anyhow::Result<_>>()?;
        before.sort();
        let Some(last) = before.pop() else {
            return Ok(Vec::new());
        };
        let last: Value = serde_json::from_slice(&fs::read(last)?)?;
        let rows = last["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let was = |what: &str| {
            let row = rows.iter().find(|row| row["what"] == what)?;
            row["result"].as_f64()
        };
        Ok(self
            .rows
            .iter()
            .filter_map(|row| {
                let was = was(&row.what)?;
                let change = row.result / was;
                (!(0.8..1.25).contains(&change)).then(|| {
                    format!(
                        "{}: {:.2} {} (previous run: {was:.2})",
                        row.what, row.result, row.unit
                    )
                })
            })
            .collect())
    }
}

fn times(times: &Times) -> Value {
    json!({
        "p50_us": times.percentile(0.5).as_secs_f64() * 1e6,
        "p99_us": times.percentile(0.99).as_secs_f64() * 1e6,
        "per_second": times.rate(),
    })
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}

/// Returns the first line that a program prints, or an empty string.
fn said(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}
