//! Measures the time until a version of a module serves: a new version, which is compiled; a
//! compiled version, which is loaded from disk; and a version that is still in memory, as in a
//! rollback.
//!
//! The requests use the operator's socket. When the response arrives, the version is serving and
//! stored in the database.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::measure::{Timings, Workload};
use crate::report::Report;
use crate::service::Service;

/// Target: maximum time for a version that must be compiled.
const COLD_TARGET: Duration = Duration::from_secs(2);

/// Target: maximum time for a version in memory. The host keeps the two most recently loaded
/// versions of each module in memory.
const IN_MEMORY_TARGET: Duration = Duration::from_millis(10);

/// Measures all three cases with the mail module.
pub(crate) fn measure(
    service: &Service,
    modules: &Path,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mail = std::fs::read(modules.join("latchmail_mail.wasm"))?;
    let mut operator = service.operator()?;
    let mut digests = Vec::new();
    let mut cold = Vec::new();
    for mark in 0..workload.versions {
        let component = STANDARD.encode(version(&mail, u8::try_from(mark)?));
        let install =
            json!({ "modules": [{ "component": component }], "accept": true }).to_string();
        let began = Instant::now();
        let response = operator.post("/api/v1/admin/modules", &install)?;
        cold.push(began.elapsed());
        let message = String::from_utf8_lossy(&response.body);
        anyhow::ensure!(
            response.status == 201,
            "the installation failed: {} {message}",
            response.status
        );
        let reports: Value = serde_json::from_str(&message)?;
        let digest = reports["modules"][0]["digest"].as_str();
        digests.push(digest.context("the response has no digest")?.to_owned());
    }
    let mut roll_back = |digests: &[String], rounds: usize| -> anyhow::Result<Timings> {
        let mut times = Vec::new();
        for (round, digest) in digests.iter().cycle().take(rounds).enumerate() {
            let to = json!({ "digest": digest }).to_string();
            let began = Instant::now();
            operator.post_ok("/api/v1/admin/modules/mail/rollback", &to)?;
            // The first change to each version may have loaded it from disk.
            if round >= digests.len() {
                times.push(began.elapsed());
            }
        }
        Ok(times.into())
    };
    let compiled = roll_back(&digests, workload.swaps)?;
    let in_memory = roll_back(&digests[..2], workload.swaps)?;
    service.http()?.get("/api/v1/mail/folders")?;
    report.slowest(
        "module installation, not compiled",
        &cold.into(),
        Some(COLD_TARGET),
    );
    report.slowest("module swap, compiled", &compiled, None);
    report.slowest("module swap, in memory", &in_memory, Some(IN_MEMORY_TARGET));
    Ok(())
}

/// Returns the component with another digest: adds a custom section (WebAssembly core
/// specification, 5.5.3), which has no effect.
fn version(component: &[u8], mark: u8) -> Vec<u8> {
    let section = [0, 3, 1, b'v', mark];
    [component, &section].concat()
}
