//! Measures the time until a version of a module serves: a new version, which is compiled; a version that was compiled before, which is
//! loaded again; and a version that served recently, as in a rollback.
//!
//! Changes are requested over the operator's socket. When the response arrives, the version is compiled, described, linked, routed, stored
//! in the database and serving.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::measure::{Size, Times};
use crate::report::Report;
use crate::service::Service;

/// Target: maximum time for a version that must be compiled.
const COLD: Duration = Duration::from_secs(2);

/// Target: maximum time for a version that is compiled and in memory, which applies to the two versions of each module that were loaded
/// last.
const AT_HAND: Duration = Duration::from_millis(10);

/// Measures both with the mail module.
pub(crate) fn measure(
    service: &Service,
    modules: &Path,
    size: &Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mail = std::fs::read(modules.join("latchmail_mail.wasm"))?;
    let mut operator = service.operator()?;
    let mut digests = Vec::new();
    let mut cold = Vec::new();
    for mark in 0..size.versions {
        let component = STANDARD.encode(version(&mail, u8::try_from(mark)?));
        let install = json!({ "modules": [{ "component": component }] }).to_string();
        let began = Instant::now();
        let answer = operator.post("/api/v1/admin/modules", &install)?;
        cold.push(began.elapsed());
        let said = String::from_utf8_lossy(&answer.body);
        anyhow::ensure!(answer.status == 201, "{}: {said}", answer.status);
        let reports: Value = serde_json::from_str(&said)?;
        let digest = reports["modules"][0]["digest"].as_str();
        digests.push(digest.context("no digest")?.to_owned());
    }
    let mut rolled_back = |digests: &[String], rounds: usize| -> anyhow::Result<Times> {
        let mut times = Vec::new();
        for (round, digest) in digests.iter().cycle().take(rounds).enumerate() {
            let to = json!({ "digest": digest }).to_string();
            let began = Instant::now();
            operator.change("/api/v1/admin/modules/mail/rollback", &to)?;
            // The first change to each version may have loaded it from disk.
            if round >= digests.len() {
                times.push(began.elapsed());
            }
        }
        Ok(times.into())
    };
    let compiled = rolled_back(&digests, size.swaps)?;
    let at_hand = rolled_back(&digests[..2], size.swaps)?;
    service.http()?.get("/api/v1/mail/folders")?;
    report.slowest("module install, never seen", &cold.into(), Some(COLD));
    report.slowest("module swap, compiled before", &compiled, None);
    report.slowest("module swap, one of the last two", &at_hand, Some(AT_HAND));
    Ok(())
}

/// Returns the same component with another digest, by adding a custom section (WebAssembly core specification, 5.5.3) that is never read.
fn version(component: &[u8], mark: u8) -> Vec<u8> {
    let section = [0, 3, 1, b'v', mark];
    [component, &section].concat()
}
