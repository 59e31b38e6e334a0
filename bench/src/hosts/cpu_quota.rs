//! Limits the CPU time of a process with a control group (cgroups, version 1 or 2). Needs root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The controller of CPU time, if the system mounts each controller on its own (version 1).
const VERSION_1: &str = "/sys/fs/cgroup/cpu";

/// All controllers (version 2).
const VERSION_2: &str = "/sys/fs/cgroup";

/// The period of the limit in microseconds. A short period prevents long pauses.
const PERIOD: u32 = 10_000;

/// A control group with one process. The group is removed on drop. The process must have ended
/// before.
pub(super) struct CpuQuota(PathBuf);

impl CpuQuota {
    /// Limits a process and its threads to a share of one processor core.
    pub(super) fn limit(pid: u32, share: f64) -> anyhow::Result<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a period"
        )]
        let quota = (f64::from(PERIOD) * share) as u32;
        let name = format!("latchmail-bench-{pid}");
        let (parent, files) = if Path::new(VERSION_1).is_dir() {
            let quota = [("cpu.cfs_period_us", PERIOD), ("cpu.cfs_quota_us", quota)];
            let files = quota.map(|(file, value)| (file, value.to_string()));
            (VERSION_1, files.to_vec())
        } else {
            (VERSION_2, vec![("cpu.max", format!("{quota} {PERIOD}"))])
        };
        let group = Path::new(parent).join(name);
        fs::create_dir(&group).with_context(|| {
            format!(
                "cannot limit the CPU time of a process with {}",
                group.display()
            )
        })?;
        let created = Self(group);
        for (file, value) in files {
            created.write(file, &value)?;
        }
        created.write("cgroup.procs", &pid.to_string())?;
        Ok(created)
    }

    fn write(&self, file: &str, value: &str) -> anyhow::Result<()> {
        let path = self.0.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
