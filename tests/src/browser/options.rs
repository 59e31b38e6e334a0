//! The options of a browser: its size, its colours, and its network.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

/// The options of a browser.
#[derive(Clone, Debug)]
pub struct BrowserOptions {
    /// The name of these options, for screenshots.
    pub name: &'static str,
    width: u32,
    height: u32,
    phone: bool,
    dark: bool,
    /// The value of the media feature `prefers-reduced-motion`.
    motion: &'static str,
    scripts: bool,
    hosts: Vec<String>,
}

impl BrowserOptions {
    /// A desktop window.
    pub const DESKTOP: Self = Self {
        name: "desktop",
        width: 1280,
        height: 800,
        phone: false,
        dark: false,
        motion: "no-preference",
        scripts: true,
        hosts: Vec::new(),
    };
    /// A phone in portrait format.
    pub const PHONE: Self = Self {
        name: "phone",
        width: 390,
        height: 844,
        phone: true,
        dark: false,
        motion: "no-preference",
        scripts: true,
        hosts: Vec::new(),
    };

    /// A narrow phone in portrait format.
    pub const NARROW_PHONE: Self = Self {
        name: "narrow",
        width: 360,
        height: 740,
        phone: true,
        dark: false,
        motion: "no-preference",
        scripts: true,
        hosts: Vec::new(),
    };

    /// Uses dark colours.
    #[must_use]
    pub fn dark(self) -> Self {
        Self {
            name: if self.phone {
                "phone-dark"
            } else {
                "desktop-dark"
            },
            dark: true,
            ..self
        }
    }

    /// Asks pages for less motion.
    #[must_use]
    pub fn with_reduced_motion(mut self) -> Self {
        self.motion = "reduce";
        self
    }

    /// Disables JavaScript.
    #[must_use]
    pub fn without_scripts(self) -> Self {
        Self {
            scripts: false,
            ..self
        }
    }

    /// Resolves `host`, a `host:port`, to an address on this machine.
    #[must_use]
    pub fn with_host(mut self, host: &str, at: SocketAddr) -> Self {
        self.hosts.push(format!("MAP {host} {at}"));
        self
    }

    pub(super) fn capabilities(&self, folder: &Path) -> Value {
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            format!("--user-data-dir={}/profile", folder.display()),
            // The browser must not connect to other machines.
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            // Features that no test needs would use a seventh of the CPU time of the start.
            "--disable-gpu".to_owned(),
            "--disable-extensions".to_owned(),
            "--disable-sync".to_owned(),
            "--disable-default-apps".to_owned(),
        ];
        let mut hosts = self.hosts.clone();
        hosts.push("MAP * ~NOTFOUND".to_owned());
        hosts.push("EXCLUDE 127.0.0.1".to_owned());
        hosts.push("EXCLUDE ::1".to_owned());
        arguments.push(format!("--host-resolver-rules={}", hosts.join(", ")));
        let blocked = if self.scripts { 1 } else { 2 };
        json!({
            "browserName": "chrome",
            "acceptInsecureCerts": true,
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": {
                "binary": "/usr/bin/chromium",
                "args": arguments,
                "prefs": { "profile.default_content_setting_values.javascript": blocked },
            },
        })
    }

    /// Returns the commands of the developer tools' protocol that configure a page.
    pub(super) fn commands(&self) -> [(&'static str, Value); 2] {
        let size = json!({
            "width": self.width,
            "height": self.height,
            "deviceScaleFactor": if self.phone { 2 } else { 1 },
            "mobile": self.phone,
        });
        let colours = if self.dark { "dark" } else { "light" };
        let media = json!({ "features": [
            { "name": "prefers-color-scheme", "value": colours },
            { "name": "prefers-reduced-motion", "value": self.motion },
        ] });
        [
            ("Emulation.setDeviceMetricsOverride", size),
            ("Emulation.setEmulatedMedia", media),
        ]
    }
}
