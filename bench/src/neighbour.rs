//! Compares a listing while another module misuses the CPU with the same listing while the same number of threads of another program keep
//! the CPU busy. Both take a share of the CPU. The hostile module must not cost its neighbour more than that.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use crate::measure::{Call, Size, settled};
use crate::report::Report;
use crate::service::Service;

/// Actions of the hostile module (`tests/fixtures/hostile`).
const DEEDS: [&str; 6] = ["spin", "call", "log", "log-much", "grow", "handles"];

/// Target: maximum ratio of the listing's p99 to its p99 next to the other program.
const TARGET: f64 = 1.5;

const LISTING: &str = "/api/v1/mail/folders/INBOX/messages?limit=50";

/// Selects who keeps the CPU busy.
#[derive(Default)]
struct Busy {
    who: AtomicU8,
    at_work: AtomicUsize,
}

const NOBODY: u8 = 0;
const PROGRAM: u8 = 1;
const MODULE: u8 = 2;
const OVER: u8 = 3;

impl Busy {
    /// Calls `does` repeatedly while it is the turn of `whose`.
    fn work(&self, whose: u8, mut does: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        loop {
            self.at_work.fetch_add(1, Ordering::SeqCst);
            let who = self.who.load(Ordering::SeqCst);
            let done = if who == whose { does() } else { Ok(()) };
            self.at_work.fetch_sub(1, Ordering::SeqCst);
            done?;
            match who {
                OVER => return Ok(()),
                who if who == whose => {}
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn rest(&self) {
        self.who.store(NOBODY, Ordering::SeqCst);
        while self.at_work.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

/// Measures each action.
pub(crate) fn measure(service: &Service, size: &Size, report: &mut Report) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    for deed in DEEDS {
        let path = &format!("/hostile/{deed}");
        let busy = &Busy::default();
        let [program, module] = std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for _ in 0..cores {
                workers.push(scope.spawn(|| {
                    busy.work(PROGRAM, || {
                        (0..100_000).for_each(|_| std::hint::spin_loop());
                        Ok(())
                    })
                }));
                workers.push(scope.spawn(|| {
                    let mut client = service.http()?;
                    busy.work(MODULE, || {
                        let answer = client.read(path)?;
                        anyhow::ensure!(answer.status >= 500, "{path}: {}", answer.status);
                        Ok(())
                    })
                }));
            }
            let measured = compare(service, size, busy);
            busy.who.store(OVER, Ordering::SeqCst);
            for worker in workers {
                match worker.join() {
                    Ok(worked) => worked?,
                    Err(_) => anyhow::bail!("a worker panicked"),
                }
            }
            measured
        })?;
        let name = format!("listing beside a hostile module: {deed}");
        report.tail(&name, &program, &module, Some(TARGET));
    }
    Ok(())
}

fn compare(
    service: &Service,
    size: &Size,
    busy: &Busy,
) -> anyhow::Result<[crate::measure::Times; 2]> {
    let listing = |who| -> anyhow::Result<Call<'_>> {
        let mut client = service.http()?;
        Ok(Box::new(move || {
            busy.who.store(who, Ordering::SeqCst);
            client.get(LISTING).map(drop)
        }))
    };
    settled(
        size,
        &mut [listing(PROGRAM)?],
        &mut [listing(MODULE)?],
        || {
            busy.rest();
            Ok(())
        },
    )
}
