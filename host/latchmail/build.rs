//! Compresses the components in the folder `$LATCHMAIL_EMBED_MODULES` if the feature
//! `embed-modules` is enabled. The program then contains the compressed components.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // This program has several hundred thousand relative relocations, because it is
    // position-independent. In the usual format, each relocation needs 24 bytes in the file. The
    // packed format is much smaller, and requires glibc 2.36 (Debian 12).
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_release && std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    #[cfg(feature = "embed-modules")]
    if let Err(reason) = embed::compress() {
        println!("cargo::error=the feature `embed-modules` needs the built modules: {reason}");
        std::process::exit(1);
    }
}

#[cfg(feature = "embed-modules")]
mod embed {
    use std::path::Path;
    use std::{env, fs};

    /// The environment variable with the folder of the built modules.
    const FOLDER: &str = "LATCHMAIL_EMBED_MODULES";

    /// The names of the modules.
    const MODULES: [&str; 7] = [
        "mail",
        "credentials",
        "aliases",
        "domains",
        "teams",
        "webhooks",
        "mcp",
    ];

    /// The highest level of Zstandard. The compression of the modules takes some seconds.
    const LEVEL: i32 = 22;

    /// Writes the compressed components to the folder of the build.
    pub(super) fn compress() -> Result<(), String> {
        println!("cargo::rerun-if-env-changed={FOLDER}");
        let folder = env::var_os(FOLDER).ok_or_else(|| {
            format!(
                "set {FOLDER} to the folder into which `./scripts/build-components components FOLDER component` built them"
            )
        })?;
        let output = env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?;
        for name in MODULES {
            let file = Path::new(&folder).join(format!("latchmail_{name}.wasm"));
            println!("cargo::rerun-if-changed={}", file.display());
            let failed = |error| {
                format!(
                    "{}: {error}; build the modules with `./scripts/build-components components {} component`",
                    file.display(),
                    folder.display()
                )
            };
            let component = fs::read(&file).map_err(failed)?;
            let compressed = zstd::encode_all(&*component, LEVEL).map_err(failed)?;
            let file = Path::new(&output).join(format!("latchmail_{name}.wasm.zst"));
            fs::write(file, compressed).map_err(failed)?;
        }
        Ok(())
    }
}
