//! Modules in registries: a registry and signatures as they are in production, and a registry that
//! lies. After each failure, the version that served before continues to serve.

use latchmail_registry::Digest;
use latchmail_tests::{
    DockerRegistry, FakeRegistry, ProgramOutput, REGISTRY_CREDENTIALS, Service, SigningKey,
};
use serde_json::{Value, json};

use super::{NEW_MODULES, assert_serves, variant_that, variant_with_version, version};

async fn run(service: &Service, arguments: &[&str]) -> ProgramOutput {
    service.operator_with_all_settings(arguments, &[]).await
}

async fn install(service: &Service, reference: &str) -> ProgramOutput {
    run(service, &["module", "install", "--yes", reference]).await
}

async fn show(service: &Service) -> Value {
    let shown = run(service, &["module", "show", "variant", "--json"]).await;
    serde_json::from_str(&shown.succeeds()).unwrap()
}

/// A lying registry, and a service that serves version 1.0.0 from it.
struct Fixture {
    registry: FakeRegistry,
    key: SigningKey,
    service: Service,
    folder: tempfile::TempDir,
}

impl Fixture {
    async fn start() -> Self {
        let (registry, key) = (FakeRegistry::start().await, SigningKey::default());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("modules.pub");
        std::fs::write(&file, key.public_key()).unwrap();
        let settings = format!(
            "{NEW_MODULES}\n{}registry.keys = ['{}']\nregistry.credentials = '{}'",
            registry.settings(),
            file.display(),
            write_credentials(folder.path(), &registry, REGISTRY_CREDENTIALS),
        );
        let service = Service::with(&settings).await;
        let fixture = Self {
            registry,
            key,
            service,
            folder,
        };
        let digest = fixture.publish("1.0.0", &variant_with_version("1.0.0"));
        fixture.registry.sign(&digest, &fixture.key);
        let output = install(&fixture.service, &fixture.registry.reference("1.0.0")).await;
        let output = output.succeeds();
        let source = format!("from {}@{digest}", fixture.registry.reference("1.0.0"));
        assert!(output.contains(&source), "{output}");
        assert_serves(&fixture.service, "1.0.0").await;
        fixture
    }

    /// Publishes a component without a signature. Returns the digest of its manifest.
    fn publish(&self, tag: &str, component: &[u8]) -> String {
        let manifest = self.registry.publish(tag, component);
        Digest::of(manifest.to_string().as_bytes()).to_string()
    }

    /// Asserts that an installation fails for this reason, and changes nothing.
    async fn assert_refused(&self, reference: &str, mention: &str) {
        let before = show(&self.service).await["versions"].clone();
        install(&self.service, reference)
            .await
            .fails_mentioning(mention);
        assert_serves(&self.service, "1.0.0").await;
        assert_eq!(show(&self.service).await["versions"], before);
    }

    /// Publishes and signs version 2.0.0. Returns its manifest and its digest.
    fn publish_next(&self) -> (Value, String) {
        let component = variant_with_version("2.0.0");
        let manifest = self.registry.publish("2.0.0", &component);
        let digest = Digest::of(manifest.to_string().as_bytes()).to_string();
        self.registry.sign(&digest, &self.key);
        (manifest, digest)
    }
}

/// Writes a file with the credentials of a registry, and returns its path.
fn write_credentials(folder: &std::path::Path, registry: &FakeRegistry, auth: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let file = folder.join("registry.json");
    let text = json!({ "auths": { registry.address.to_string(): { "auth": auth } } });
    std::fs::write(&file, text.to_string()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_module_of_a_registry_is_installed_and_upgraded() {
    let registry = DockerRegistry::start().await;
    let service = Service::with(&format!("{NEW_MODULES}\n{}", registry.settings())).await;
    let push = async |tag: &str, component: Vec<u8>| {
        let file = service.state.join("pushed.wasm");
        std::fs::write(&file, component).unwrap();
        let (file, reference) = (file.display().to_string(), registry.reference(tag));
        let output = run(&service, &["module", "push", &file, &reference]).await;
        let output = output.succeeds();
        let pushed = output.trim().strip_prefix("pushed ").unwrap().to_owned();
        assert!(
            pushed.starts_with(&format!("{reference}@sha256:")),
            "{pushed}"
        );
        pushed
    };
    let first = push("1.0.0", variant_with_version("1.0.0")).await;
    install(&service, &first)
        .await
        .fails_mentioning("no signature");
    registry.sign(&first);
    install(&service, &registry.reference("1.0.0"))
        .await
        .succeeds();
    assert_serves(&service, "1.0.0").await;
    let text = run(&service, &["module", "show", "variant"])
        .await
        .succeeds();
    assert!(text.contains(&format!("source    {first}")), "{text}");
    let upgrade = ["module", "upgrade", "variant", "--yes"];
    let output = run(&service, &upgrade).await.succeeds();
    assert!(output.contains("is up to date"), "{output}");

    // A version with an additional route, and a layer of 30 MB.
    let mut large = variant_that("more", "1.10.0");
    append_custom_section(&mut large, 30 * 1024 * 1024);
    let second = push("1.10.0", large).await;
    push("2.0.0-rc.1", variant_with_version("2.0.0-rc.1")).await;
    run(&service, &upgrade)
        .await
        .fails_mentioning("no signature");
    registry.sign(&second);
    let plan = ["module", "upgrade", "variant", "--plan"];
    let output = run(&service, &plan).await.succeeds();
    for mention in [&*second, "it has the route GET /variant/more"] {
        assert!(output.contains(mention), "{output}");
    }
    assert_serves(&service, "1.0.0").await;
    run(&service, &upgrade).await.succeeds();
    assert_serves(&service, "1.10.0").await;
    service.send("GET /variant/more").await.succeeds(200);
}

/// Appends a section without meaning to a component.
fn append_custom_section(component: &mut Vec<u8>, length: usize) {
    let name = b"\x07padding";
    let mut size = name.len() + length;
    component.push(0);
    while size >= 0x80 {
        component.push(u8::try_from(size & 0x7f).unwrap() | 0x80);
        size >>= 7;
    }
    component.push(u8::try_from(size).unwrap());
    component.extend(name);
    component.resize(component.len() + length, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_serves_while_its_registry_is_down_and_after_its_tag_has_moved() {
    let mut fixture = Fixture::start().await;
    let source = show(&fixture.service).await["versions"][0]["source"].clone();
    let tag = fixture.registry.reference("1.0.0");
    fixture.publish("1.0.0", &variant_with_version("6.6.6"));
    fixture.service.restart().await;
    assert_serves(&fixture.service, "1.0.0").await;
    fixture.assert_refused(&tag, "no signature").await;
    fixture.registry.stop().await;
    fixture.service.restart().await;
    assert_serves(&fixture.service, "1.0.0").await;
    fixture
        .assert_refused(&tag, "cannot reach the registry")
        .await;
    assert_eq!(
        show(&fixture.service).await["versions"][0]["source"],
        source
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_artifact_with_the_tag_of_a_newer_version_is_no_upgrade() {
    let fixture = Fixture::start().await;
    let upgrade = ["module", "upgrade", "variant", "--yes"];
    let set_tags = |tags: &[&str]| {
        let list = json!({ "tags": tags }).to_string();
        fixture.registry.reply("tags/list", list.as_bytes());
    };
    fixture.publish_next();
    set_tags(&["1.0.0", "2.0.0"]);
    run(&fixture.service, &upgrade).await.succeeds();
    assert_serves(&fixture.service, "2.0.0").await;
    // The artifact of version 1.0.0 is signed.
    set_tags(&["1.0.0", "2.0.0", "3.0.0"]);
    fixture.publish("3.0.0", &variant_with_version("1.0.0"));
    run(&fixture.service, &upgrade)
        .await
        .fails_mentioning("an older version");
    assert_serves(&fixture.service, "2.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_without_a_valid_signature_is_refused() {
    let fixture = Fixture::start().await;
    let registry = &fixture.registry;
    let tag = registry.reference("2.0.0");
    let digest = fixture.publish("2.0.0", &variant_with_version("2.0.0"));
    fixture.assert_refused(&tag, "no signature").await;
    registry.sign(&digest, &SigningKey::default());
    fixture.assert_refused(&tag, "no key of").await;
    let other = fixture.publish("3.0.0", &variant_with_version("3.0.0"));
    registry.sign_as(&digest, &fixture.key, &other, "modules/variant");
    fixture.assert_refused(&tag, "another artifact").await;
    registry.sign_as(&digest, &fixture.key, &digest, "modules/other");
    fixture.assert_refused(&tag, "another repository").await;
    let unsigned = ["module", "install", "--yes", "--unsigned", tag.as_str()];
    run(&fixture.service, &unsigned)
        .await
        .fails_mentioning("registry.allow_unsigned");
    registry.sign(&digest, &fixture.key);
    install(&fixture.service, &tag).await.succeeds();
    assert_serves(&fixture.service, "2.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_content_than_that_with_the_digest_is_refused() {
    let fixture = Fixture::start().await;
    let registry = &fixture.registry;
    let (manifest, digest) = fixture.publish_next();
    let tag = registry.reference("2.0.0");
    let mut other = variant_with_version("6.6.6");
    for (path, content) in [
        (manifest["config"]["digest"].as_str(), b"{}".to_vec()),
        (manifest["layers"][0]["digest"].as_str(), other.clone()),
    ] {
        let path = format!("blobs/{}", path.unwrap());
        registry.reply(&path, &content);
        fixture.assert_refused(&tag, "other content").await;
        fixture.publish_next();
    }
    other.push(0);
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    registry.reply(&format!("blobs/{layer}"), &other);
    fixture.assert_refused(&tag, "is larger than").await;
    fixture.publish_next();
    registry.reply(&format!("manifests/{digest}"), b"{}");
    let by_digest = registry.reference_to(&digest);
    fixture.assert_refused(&by_digest, "other content").await;
    fixture.publish_next();
    install(&fixture.service, &by_digest).await.succeeds();
    assert_serves(&fixture.service, "2.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_not_that_of_a_component_is_refused() {
    let fixture = Fixture::start().await;
    let (good, _) = fixture.publish_next();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        manifest.to_string().into_bytes()
    };
    let layer = &good["layers"][0];
    for (manifest, mention) in [
        (b"".to_vec(), "is not valid"),
        (b"{".to_vec(), "is not valid"),
        (b"\xff\xfe".to_vec(), "is not valid"),
        (b"[[[[[[[[".repeat(1000), "is not valid"),
        (vec![b' '; 2 * 1024 * 1024], "is larger than"),
        (
            json!({ "schemaVersion": 2, "manifests": [] })
                .to_string()
                .into(),
            "an index",
        ),
        (with(&|m| m["layers"] = json!([])), "exactly one layer"),
        (
            with(&|m| m["layers"] = json!([layer, layer])),
            "exactly one layer",
        ),
        (
            with(&|m| m["layers"][0]["mediaType"] = json!("text/plain")),
            "exactly one layer",
        ),
        (
            with(&|m| m["config"]["mediaType"] = json!("text/plain")),
            "media type",
        ),
        (
            with(&|m| m["layers"][0]["size"] = json!(-1)),
            "is not valid",
        ),
        (
            with(&|m| m["layers"][0]["size"] = json!(1_u64 << 40)),
            "is larger than",
        ),
        (
            with(&|m| m["layers"][0]["digest"] = json!("sha256:../x")),
            "SHA-256",
        ),
        (
            with(&|m| m["layers"][0]["digest"] = json!("sha512:00")),
            "SHA-256",
        ),
    ] {
        let digest = fixture.registry.publish_manifest("3.0.0", &manifest);
        fixture.registry.sign(&digest, &fixture.key);
        let tag = fixture.registry.reference("3.0.0");
        fixture.assert_refused(&tag, mention).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_go_to_their_registry_and_to_no_target_of_a_redirect() {
    let fixture = Fixture::start().await;
    let registry = &fixture.registry;
    registry.require_token();
    let storage = FakeRegistry::start().await;
    let (manifest, _) = fixture.publish_next();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    storage.reply(&format!("blobs/{layer}"), &variant_with_version("2.0.0"));
    let url = format!(
        "http://{}/v2/modules/variant/blobs/{layer}",
        storage.address
    );
    registry.redirect(&format!("blobs/{layer}"), &url);
    let tag = registry.reference("2.0.0");
    fixture.assert_refused(&tag, "unencrypted server").await;
    assert!(storage.requests().is_empty());
    // Both servers may be unencrypted.
    let both = format!("{},{}", registry.address, storage.address);
    let variable = ("LATCHMAIL_REGISTRY__PLAIN_HTTP", &*both);
    let thief = FakeRegistry::start().await;
    thief.require_token();
    let all = format!("{both},{}", thief.address);
    let path = format!("blobs/{layer}");
    let stolen = format!("http://{}/v2/modules/variant/{path}", thief.address);
    registry.redirect(&path, &stolen);
    fixture
        .service
        .operator_with_all_settings(
            &["module", "install", "--yes", tag.as_str()],
            &[("LATCHMAIL_REGISTRY__PLAIN_HTTP", all.as_str())],
        )
        .await
        .fails_mentioning("status 401");
    assert_eq!(thief.requests().len(), 1);
    assert_eq!(thief.requests()[0].1, None);
    registry.redirect(&path, &url);
    let arguments = ["module", "install", "--yes", tag.as_str()];
    fixture
        .service
        .operator_with_all_settings(&arguments, &[variable])
        .await
        .succeeds();
    assert_serves(&fixture.service, "2.0.0").await;
    let requests = storage.requests();
    assert!(!requests.is_empty());
    assert!(
        requests
            .iter()
            .all(|(_, authorization)| authorization.is_none()),
        "{requests:?}"
    );
    write_credentials(fixture.folder.path(), registry, "YWRhOndyb25n");
    install(&fixture.service, &tag)
        .await
        .fails_mentioning("refuses the credentials");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_modules_and_missing_keys_are_decisions_of_the_configuration() {
    let registry = FakeRegistry::start().await;
    let settings = format!("{NEW_MODULES}\n{}", registry.settings());
    let service = Service::with(&settings).await;
    registry.publish("latest", &variant_with_version("1.0.0"));
    let tag = registry.reference("latest");
    install(&service, &tag)
        .await
        .fails_mentioning("registry.keys");
    version(&service).await.fails(404, "There is no such route");
    let variable = ("LATCHMAIL_REGISTRY__ALLOW_UNSIGNED", "true");
    let unsigned = |verb: &'static str, name: String| {
        let service = &service;
        async move {
            let arguments = ["module", verb, "--yes", "--unsigned", name.as_str()];
            service
                .operator_with_all_settings(&arguments, &[variable])
                .await
                .succeeds()
        }
    };
    unsigned("install", tag).await;
    assert_serves(&service, "1.0.0").await;
    // A tag that is no version points to another artifact.
    registry.publish("latest", &variant_with_version("0.9.0"));
    unsigned("upgrade", "variant".into()).await;
    assert_serves(&service, "0.9.0").await;
    service.install(&[variant_with_version("1.1.0")]).await;
    let upgrade = ["module", "upgrade", "variant"];
    run(&service, &upgrade)
        .await
        .fails_mentioning("not installed from a registry");
}
