//! A listing while another module does its worst, beside the same listing while as many threads of another program keep the CPU as busy. That takes its
//! share of the CPU too; what the hostile module costs its neighbour beyond that is what it must not.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use crate::measure::{Call, Size, settled};
use crate::report::Report;
use crate::service::Service;

/// What the hostile module is asked to do (`tests/fixtures/hostile`).
const DEEDS: [&str; 6] = ["spin", "call", "log", "log-much", "grow", "handles"];

/// The most that the listing's p99 may be of that beside the other program.
const TARGET: f64 = 1.5;

const LISTING: &str = "/api/v1/mail/folders/INBOX/messages?limit=50";

/// Who keeps the CPU busy.
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
    /// Does something again and again whenever it is `whose` turn.
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

/// Measures each deed.
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
