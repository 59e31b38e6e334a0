//! Compares a listing while a hostile module is called with the same listing while another program
//! uses the CPU with as many threads. The hostile module must not slow down other modules more than
//! the other program does.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use crate::measure::{Call, Timings, Workload, compare_with_settle};
use crate::report::Report;
use crate::service::Service;

/// Actions of the hostile module (`tests/fixtures/hostile`).
const ACTIONS: [&str; 6] = ["spin", "call", "log", "log-much", "grow", "handles"];

/// Target: maximum ratio of the listing's p99 during the module's load to its p99 during the other
/// program's load.
const TARGET: f64 = 1.5;

const LISTING: &str = "/api/v1/mail/folders/INBOX/messages?limit=50";

/// The load that currently runs, and the number of threads that are working.
#[derive(Default)]
struct Load {
    source: AtomicU8,
    working: AtomicUsize,
}

const IDLE: u8 = 0;
const PROGRAM: u8 = 1;
const MODULE: u8 = 2;
const STOPPED: u8 = 3;

impl Load {
    /// Calls `step` repeatedly while the load `own` is selected. Returns when the load is stopped.
    fn run(&self, own: u8, mut step: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        loop {
            self.working.fetch_add(1, Ordering::SeqCst);
            let source = self.source.load(Ordering::SeqCst);
            let result = if source == own { step() } else { Ok(()) };
            self.working.fetch_sub(1, Ordering::SeqCst);
            result?;
            match source {
                STOPPED => return Ok(()),
                source if source == own => {}
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Stops all load and waits for the threads.
    fn pause(&self) {
        self.source.store(IDLE, Ordering::SeqCst);
        while self.working.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

/// Measures each action.
pub(crate) fn measure(
    service: &Service,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    for action in ACTIONS {
        let path = &format!("/hostile/{action}");
        let load = &Load::default();
        let [program, module] = std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for _ in 0..cores {
                workers.push(scope.spawn(|| {
                    load.run(PROGRAM, || {
                        (0..100_000).for_each(|_| std::hint::spin_loop());
                        Ok(())
                    })
                }));
                workers.push(scope.spawn(|| {
                    let mut client = service.http()?;
                    load.run(MODULE, || {
                        let response = client.response(path)?;
                        anyhow::ensure!(
                            response.status >= 500,
                            "{path}: expected an error, received the status {}",
                            response.status
                        );
                        Ok(())
                    })
                }));
            }
            let measured = compare(service, workload, load);
            load.source.store(STOPPED, Ordering::SeqCst);
            for worker in workers {
                match worker.join() {
                    Ok(worked) => worked?,
                    Err(_) => anyhow::bail!("a worker panicked"),
                }
            }
            measured
        })?;
        let name = format!("listing during a hostile module: {action}");
        report.tail(&name, &program, &module, Some(TARGET));
    }
    Ok(())
}

fn compare(service: &Service, workload: &Workload, load: &Load) -> anyhow::Result<[Timings; 2]> {
    let listing = |source| -> anyhow::Result<Call<'_>> {
        let mut client = service.http()?;
        Ok(Box::new(move || {
            load.source.store(source, Ordering::SeqCst);
            client.get(LISTING).map(drop)
        }))
    };
    compare_with_settle(
        workload,
        &mut [listing(PROGRAM)?],
        &mut [listing(MODULE)?],
        || {
            load.pause();
            Ok(())
        },
    )
}
