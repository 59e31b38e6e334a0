//! `--profile ROUTE`: measures the cost of one operation, and writes a flame graph of it.
//!
//! One client calls the operation. The first interval measures the figures, the second one is
//! sampled with `perf`, so that sampling does not change the figures. The program is built with
//! frame pointers and without its own allocator, and runs with the library in `counters/`, which
//! counts allocations and copied bytes. docs/benchmarks.md describes what the figures contain.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::api::{KNOWN, MESSAGES, OPERATIONS};
use crate::mailbox;
use crate::measure::{Call, run_interval};
use crate::page::output_of;
use crate::service::Service;

/// Samples per second. This is not a divisor of the frequency of the kernel's timer.
const FREQUENCY: &str = "997";

/// Duration of the calls before the first interval.
const WARM_UP: Duration = Duration::from_secs(2);

/// Duration of an interval.
const INTERVAL: Duration = Duration::from_secs(10);

/// Duration of an interval with `--quick`.
const QUICK_INTERVAL: Duration = Duration::from_secs(1);

/// The arguments of `--profile`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Measure one operation with one client: write a flame graph, and the CPU time, allocations,
    /// context switches and copied bytes per request. Requires perf.
    #[arg(
        long,
        value_name = "ROUTE",
        requires = "counters",
        value_parser = PossibleValuesParser::new(OPERATIONS.iter().map(|one| one.id))
    )]
    profile: Option<String>,
    /// The library that counts allocations and copied bytes, for `--profile`.
    #[arg(long, value_name = "LIBRARY")]
    counters: Option<PathBuf>,
}

impl Arguments {
    /// Returns the id of the operation and the counting library.
    pub(crate) fn selected(&self) -> Option<(&str, &Path)> {
        self.profile.as_deref().zip(self.counters.as_deref())
    }
}

/// The resources that the service has used since its start.
struct Usage {
    /// CPU time of all threads, in user mode and in the kernel.
    cpu: Duration,
    /// Context switches of each thread.
    context_switches: HashMap<String, u64>,
    allocations: u64,
    copied_bytes: u64,
}

impl Usage {
    /// Reads the current values. `counters` is the file of the counting library.
    fn read(pid: u32, counters: &Path) -> anyhow::Result<Self> {
        let mut context_switches = HashMap::new();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?;
            // A thread can end after it was listed.
            let Ok(status) = fs::read_to_string(thread.path().join("status")) else {
                continue;
            };
            let switches = status
                .lines()
                .filter(|line| line.contains("ctxt_switches:"))
                .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            let id = thread.file_name().to_string_lossy().into_owned();
            context_switches.insert(id, switches.sum());
        }
        let counted = fs::read(counters)?;
        let (counted, _) = counted.as_chunks();
        let [allocations, copied_bytes] = counted else {
            anyhow::bail!("the file of the counters has an unexpected length");
        };
        Ok(Self {
            cpu: cpu_time(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
                .context("/proc/PID/stat has an unexpected format")?,
            context_switches,
            allocations: u64::from_ne_bytes(*allocations),
            copied_bytes: u64::from_ne_bytes(*copied_bytes),
        })
    }

    /// Returns the context switches since `earlier`, without those of threads that have ended.
    fn context_switches_since(&self, earlier: &Self) -> u64 {
        self.context_switches
            .iter()
            .map(|(thread, now)| {
                now.saturating_sub(*earlier.context_switches.get(thread).unwrap_or(&0))
            })
            .sum()
    }
}

/// Returns the CPU time of a process, including its threads that have ended. `stat` is the content
/// of `/proc/PID/stat` (proc(5)).
fn cpu_time(stat: &str) -> Option<Duration> {
    // The second field is the name of the program in parentheses, which can contain spaces. `utime`
    // and `stime` are the fields 14 and 15.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?)
}

/// Measures the operation `route` of the program `host`. Writes the flame graph and the figures to
/// `results`, and prints them.
#[expect(clippy::print_stdout, reason = "the figures are output of the program")]
pub(crate) async fn run(
    route: &str,
    counters: &Path,
    host: &Path,
    modules: &Path,
    results: &Path,
    quick: bool,
) -> anyhow::Result<()> {
    let operation = OPERATIONS
        .iter()
        .find(|one| one.id == route)
        .context("the operation does not exist")?;
    let folder = tempfile::tempdir()?;
    let counted = folder.path().join("counters");
    fs::write(&counted, [0; 16])?;
    let mut program = Command::new(host);
    program
        .env("LD_PRELOAD", counters)
        .env("BENCH_COUNTERS", &counted);
    let service = Service::start_for_api(&mut program, modules).await?;
    let mailbox = mailbox::fill(&service, service.measured(), MESSAGES, &KNOWN)?;
    let mut call = [(operation.open)(&service, &mailbox)?];
    let interval = if quick { QUICK_INTERVAL } else { INTERVAL };
    run_interval(&mut call, WARM_UP.min(interval))?;

    let before = Usage::read(service.pid(), &counted)?;
    let requests = run_interval(&mut call, interval)?.len();
    let after = Usage::read(service.pid(), &counted)?;
    anyhow::ensure!(
        after.allocations > before.allocations && after.copied_bytes > before.copied_bytes,
        "{} did not load {}, or contains its own allocator",
        host.display(),
        counters.display()
    );
    #[expect(clippy::cast_precision_loss, reason = "counts of a short time")]
    let per_request = |count: u64| (count as f64 / requests as f64 * 10.0).round() / 10.0;
    let cpu = u64::try_from(after.cpu.saturating_sub(before.cpu).as_micros())?;
    let figures = json!({
        "operation": route,
        "commit": output_of("git", &["describe", "--always", "--dirty"]),
        "requests": requests,
        "cpuMicros": per_request(cpu),
        "allocations": per_request(after.allocations - before.allocations),
        "contextSwitches": per_request(after.context_switches_since(&before)),
        "copiedBytes": per_request(after.copied_bytes - before.copied_bytes),
    });

    let samples = folder.path().join("perf.data");
    sample(service.pid(), &samples, &mut call, interval)?;
    let graph = flame_graph(&samples, folder.path(), route)?;
    service.stop().await;

    fs::create_dir_all(results)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let [svg, json] = ["svg", "json"].map(|kind| results.join(format!("{route}-{now}.{kind}")));
    fs::write(&svg, graph)?;
    let figures = serde_json::to_string_pretty(&figures)? + "\n";
    fs::write(&json, &figures)?;
    print!("{figures}");
    println!("flame graph written to {}", svg.display());
    println!("figures written to {}", json.display());
    Ok(())
}

/// Samples the stacks of the process while the call runs. Writes them to the file `samples`.
fn sample(
    pid: u32,
    samples: &Path,
    call: &mut [Call<'_>],
    interval: Duration,
) -> anyhow::Result<()> {
    let mut perf = Command::new("perf")
        .args([
            "record",
            "--quiet",
            "-e",
            "cpu-clock",
            "-g",
            "-F",
            FREQUENCY,
        ])
        .arg("-p")
        .arg(pid.to_string())
        .arg("-o")
        .arg(samples)
        .spawn()
        .context("cannot run perf; on Debian, install the package linux-perf")?;
    let called = run_interval(call, interval);
    anyhow::ensure!(
        perf.try_wait()?.is_none(),
        "perf failed; see its message above. perf requires root, or a value of kernel.perf_event_paranoid of at most 1"
    );
    // perf writes the rest of its file when it receives this signal.
    kill_process(Pid::from_child(&perf), Signal::INT)?;
    perf.wait()?;
    called?;
    Ok(())
}

/// Returns the flame graph of the samples as SVG. `folder` is for temporary files.
fn flame_graph(samples: &Path, folder: &Path, route: &str) -> anyhow::Result<Vec<u8>> {
    // Inlined functions are not resolved, because this takes minutes.
    let mut script = Command::new("perf")
        .args(["script", "--no-inline", "-i"])
        .arg(samples)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut collapse = Command::new("inferno-collapse-perf");
    let stacks = output(collapse.stdin(stdout_of(&mut script)?))?;
    script.wait()?;
    let stacks = merge_frames_of_modules(std::str::from_utf8(&stacks)?);
    anyhow::ensure!(!stacks.is_empty(), "perf has no samples of the service");
    let file = folder.join("stacks");
    fs::write(&file, stacks)?;
    let title = format!("CPU time of {route}");
    output(
        Command::new("inferno-flamegraph")
            .args(["--title", &title, "--countname", "ns"])
            .stdin(File::open(file)?),
    )
}

fn stdout_of(child: &mut Child) -> anyhow::Result<Stdio> {
    Ok(child.stdout.take().context("there is no pipe")?.into())
}

fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}; run ./scripts/setup --profile"))?;
    anyhow::ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// Replaces consecutive frames of compiled modules, whose functions have no names, by one frame
/// `sandbox`. `stacks` has a line for each stack: the frames, separated by semicolons, and the
/// number of nanoseconds.
fn merge_frames_of_modules(stacks: &str) -> String {
    const MERGED: &str = "sandbox";
    let mut merged = String::new();
    for (frames, time) in stacks.lines().filter_map(|line| line.rsplit_once(' ')) {
        // perf expects the names of generated code in a file perf-PID.map, which does not exist.
        let mut frames: Vec<_> = frames
            .split(';')
            .map(|frame| {
                if frame.starts_with("[perf-") {
                    MERGED
                } else {
                    frame
                }
            })
            .collect();
        frames.dedup_by(|frame, previous| frame == previous && *frame == MERGED);
        merged += &frames.join(";");
        merged.push(' ');
        merged += time;
        merged.push('\n');
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_is_the_sum_of_user_and_kernel_time() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 2000 0 10 0 150 50 0 0 20 0 4 0 100 0 0";
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let expected = 200.0 / f64::from(u32::try_from(ticks_per_second).unwrap());
        assert_eq!(cpu_time(stat), Some(Duration::from_secs_f64(expected)));
    }

    #[test]
    fn consecutive_frames_of_modules_become_one_frame() {
        let stacks =
            "worker;call;[perf-7.map];[perf-7.map];list;[perf-7.map] 20\nworker;read;read 5\n";
        assert_eq!(
            merge_frames_of_modules(stacks),
            "worker;call;sandbox;list;sandbox 20\nworker;read;read 5\n"
        );
    }

    #[test]
    fn context_switches_of_new_threads_count_from_zero() {
        let usage = |threads: &[(&str, u64)]| Usage {
            cpu: Duration::ZERO,
            context_switches: threads
                .iter()
                .map(|(thread, count)| ((*thread).to_owned(), *count))
                .collect(),
            allocations: 0,
            copied_bytes: 0,
        };
        let before = usage(&[("1", 10), ("2", 20)]);
        let after = usage(&[("1", 15), ("3", 4)]);
        assert_eq!(after.context_switches_since(&before), 9);
    }
}
