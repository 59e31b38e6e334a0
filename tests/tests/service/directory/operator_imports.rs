//! `latchmail alias import`, `latchmail domain import` and `latchmail account adopt`, run as an
//! operator types them, against a Dovecot with users of its own.

use latchmail_tests::{Person, ProgramOutput, Response, Service, Setup};
use serde_json::{Value, json};

const ALIASES: &str = "/api/v1/aliases";
const ALICE: &str = "alice@first.test";
const SECRET: &str = "Alice-Pass-1";

/// The folders of Dovecot's programs.
const PROGRAMS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The tests write their tables to this file in the state folder of the service.
const TABLE: &str = "table";

/// Starts a service whose mail server has the users Alice, Bob, Carol and Dave.
async fn start() -> Service {
    let mut service = Setup::default().with_mail_users(false).start().await;
    let users = service.mail_users();
    for name in ["alice", "bob", "carol", "dave"] {
        users.set(&format!("{name}@first.test"), SECRET);
    }
    service
}

/// Runs a command on a file with this text. The word `FILE` in `verb` is the file.
async fn run(service: &Service, verb: &str, text: &str) -> ProgramOutput {
    run_with(service, verb, text, &[]).await
}

async fn run_with(
    service: &Service,
    verb: &str,
    text: &str,
    environment: &[(&str, &str)],
) -> ProgramOutput {
    let file = service.state.join(TABLE);
    std::fs::write(&file, text).unwrap();
    let path = file.display().to_string();
    let words = verb.split(' ');
    let arguments: Vec<&str> = words
        .map(|word| if word == "FILE" { &path } else { word })
        .collect();
    service
        .operator_with_all_settings(&arguments, environment)
        .await
}

/// Asserts the lines of the output, and the exit status 1 if an entry was not imported.
#[track_caller]
fn prints(output: &ProgramOutput, lines: &[&str]) {
    assert_eq!(
        output.stdout.lines().collect::<Vec<_>>(),
        lines,
        "{output:?}"
    );
    let is_failed = !output.stdout.ends_with(" 0 not imported\n");
    assert_eq!(output.status, i32::from(is_failed), "{output:?}");
    assert_eq!(
        output.stderr.contains("not imported"),
        is_failed,
        "{output:?}"
    );
}

/// Returns the JSON objects of the output.
fn objects(output: &ProgramOutput) -> Vec<Value> {
    let lines = output.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn sign_in(service: &Service, address: &str) -> Response {
    let body = json!({ "email": address, "password": SECRET });
    service.post("/api/v1/auth/login", &body).await
}

async fn audit(service: &Service) -> String {
    service.operator("audit --limit 1000", "").await.succeeds()
}

/// Returns the addresses of a person's aliases.
async fn aliases(person: &Person<'_>) -> Vec<String> {
    let listed = person.send(&format!("GET {ALIASES}")).await.succeeds(200);
    let listed = listed["aliases"]
        .as_array()
        .unwrap_or_else(|| panic!("{listed}"));
    let address = |alias: &Value| alias["address"].as_str().unwrap().to_owned();
    listed.iter().map(address).collect()
}

#[tokio::test]
async fn the_aliases_of_a_virtual_table_are_imported() {
    let service = start().await;
    let alice = Person::sign_in(&service, ALICE, SECRET).await;
    service
        .operator("domain hold held@first.test", "")
        .await
        .succeeds();
    let table = "# virtual
first.test       anything
Sales@First.test Alice@first.test
shop@first.test  sales@first.test
held@first.test  alice@first.test
help@first.test  dave@first.test
alice@first.test alice@first.test
info@first.test  alice@first.test,
                 bob@first.test
team@first.test  info@first.test
carol@first.test alice@first.test, carol@first.test
bob@first.test   alice@first.test
away@first.test  someone@elsewhere.test
gone@first.test  absent@first.test
@first.test      alice@first.test
x@elsewhere.test alice@first.test
broken@first.test
";
    let failures = [
        "first.test: is a domain",
        "info@first.test: has several targets; the address is reserved",
        "team@first.test: its target info@first.test has several targets; the address is reserved",
        "carol@first.test: is a user of the mail server",
        "bob@first.test: is a user of the mail server",
        "away@first.test: delivers to someone@elsewhere.test, which is not on a platform domain; the address is reserved",
        "gone@first.test: no account absent@first.test; the address is reserved",
        "@first.test: is a catch-all for a domain",
        "x@elsewhere.test: elsewhere.test is not a platform domain",
        "broken@first.test: invalid syntax in line 17: there is no target",
    ];
    let output = run(&service, "alias import FILE", table).await;
    let summary = "4 imported, 0 unchanged, 10 not imported";
    prints(&output, &[&failures[..], &[summary]].concat());
    assert_eq!(
        aliases(&alice).await,
        ["held@first.test", "sales@first.test", "shop@first.test"]
    );

    // The import created Dave's account, and did not prevent Carol's first sign-in.
    let dave = Person::sign_in(&service, "dave@first.test", SECRET).await;
    assert_eq!(aliases(&dave).await, ["help@first.test"]);
    sign_in(&service, "carol@first.test").await.succeeds(200);
    let record = audit(&service).await;
    for event in [
        "account_created  dave@first.test  by operator",
        "alias_created  alice@first.test  by operator  about sales@first.test",
        "address_held  info@first.test  by operator",
    ] {
        assert!(record.contains(event), "{event}: {record}");
    }
    let reserved = json!({ "name": "team", "domain": "first.test" });
    alice
        .post(ALIASES, &reserved)
        .await
        .fails_mentioning(400, "team@first.test is already taken");

    // A second import changes nothing. Carol has an account now.
    let output = run(&service, "alias import FILE", table).await;
    let summary = "0 imported, 4 unchanged, 10 not imported";
    let failures = failures.map(|line| match line {
        "carol@first.test: is a user of the mail server" => "carol@first.test: is an account",
        line => line,
    });
    prints(&output, &[&failures[..], &[summary]].concat());
    assert_eq!(audit(&service).await, record);

    // An address that was reserved is imported when its entry has one target.
    let output = run(&service, "alias import FILE", "info@first.test bob\n").await;
    prints(&output, &["1 imported, 0 unchanged, 0 not imported"]);
    let table = "info@first.test alice, bob\n";
    let output = run(&service, "alias import FILE", table).await;
    let failure = "info@first.test: has several targets, and is an alias of bob@first.test";
    prints(
        &output,
        &[failure, "0 imported, 0 unchanged, 1 not imported"],
    );
    let output = run(&service, "alias import FILE", "info@first.test alice\n").await;
    let failure = "info@first.test: is an alias of bob@first.test";
    prints(
        &output,
        &[failure, "0 imported, 0 unchanged, 1 not imported"],
    );
}

#[tokio::test]
async fn the_aliases_of_an_aliases_table_are_imported() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let table = "postmaster: root\nroot: ADA\nlist: :include:/etc/list\nprogram: \"|/bin/x y\"\nfile: /var/x\nloop: loop2\nloop2: loop\n";
    let output = run(&service, "alias import FILE --json", table).await;
    let failed = |entry: &str, reason: &str| json!({ "entry": entry, "status": "failed", "reason": reason, "reserved": true });
    let imported = |entry: &str| json!({ "entry": entry, "status": "imported", "reason": null, "reserved": false });
    let has_loop = "has a loop, or more than 100 aliases before its target";
    assert_eq!(
        objects(&output),
        [
            imported("postmaster@first.test"),
            imported("root@first.test"),
            failed("list@first.test", "includes a file"),
            failed("program@first.test", "runs a program"),
            failed("file@first.test", "delivers to a file"),
            failed("loop@first.test", has_loop),
            failed("loop2@first.test", has_loop),
        ]
    );
    assert_eq!(output.status, 1);

    // The domain of the names can be another platform domain.
    let verb = "alias import FILE --domain Second.test";
    let table = "sales: ada@first.test\ninfo: root@first.test\nbob: bob\n";
    let output = run(&service, verb, table).await;
    prints(&output, &["2 imported, 0 unchanged, 0 not imported"]);
    assert_eq!(
        aliases(&ada).await,
        [
            "info@second.test",
            "postmaster@first.test",
            "root@first.test",
            "sales@second.test"
        ]
    );
    let output = run(&service, "alias import FILE --domain a_b", "").await;
    output.fails_mentioning("`a_b` is not a domain");
}

#[tokio::test]
async fn without_a_lookup_socket_only_accounts_are_targets() {
    let service = Service::start().await;
    service.create_account("alice@first.test").await;
    let at_mail_server = [("LATCHMAIL_SIGN_IN__SOURCE", "mailserver")];
    let table = "a@first.test alice@first.test\nb@first.test bob@first.test\n";
    let output = run_with(&service, "alias import FILE", table, &at_mail_server).await;
    // The address may be a user of the mail server, so it is not reserved. Users cannot create
    // aliases on this domain.
    let failure = "b@first.test: no account bob@first.test";
    prints(
        &output,
        &[failure, "1 imported, 0 unchanged, 1 not imported"],
    );
    let names = "bob@first.test\nalice@first.test\n";
    let output = run_with(&service, "account adopt FILE", names, &at_mail_server).await;
    prints(&output, &["1 imported, 1 unchanged, 0 not imported"]);

    let unreachable = [
        at_mail_server[0],
        (
            "LATCHMAIL_SIGN_IN__MAILSERVER__LOOKUP_SOCKET",
            "/nonexistent/socket",
        ),
    ];
    let table = "c@first.test alice@first.test\n";
    let output = run_with(&service, "alias import FILE", table, &unreachable).await;
    let failure = "c@first.test: the mail server cannot look up the address: cannot connect to /nonexistent/socket";
    assert!(output.stdout.starts_with(failure), "{output:?}");
    assert_eq!(output.status, 1);
    let names = "carol@first.test\n";
    let output = run_with(&service, "account adopt FILE", names, &unreachable).await;
    let failure = "carol@first.test: the mail server cannot look up the user: cannot connect to ";
    assert!(output.stdout.starts_with(failure), "{output:?}");
}

#[tokio::test]
async fn users_of_the_mail_server_are_adopted() {
    let mut service = Setup::default()
        .with_mail_users(true)
        .with("sign_in.mailserver.default_domain = 'first.test'\nsign_in.domains.'second.test'.source = 'accounts'")
        .start()
        .await;
    let users = service.mail_users();
    for name in ["alice", "bob", "carol", "taken"] {
        users.set(name, SECRET);
    }
    service
        .operator("domain hold taken@first.test", "")
        .await
        .succeeds();
    sign_in(&service, "alice").await.succeeds(200);
    let file = "# users
alice:{PLAIN}Secret-1:1:1::/home::
ALICE@first.test
bob@first.test
unknown
alice*master
taken
bob@second.test
bob@elsewhere.test
a b
";
    let failures = [
        "unknown: is not a user of the mail server",
        "alice*master: contains the separator of master users",
        "taken: taken@first.test is an alias or reserved; `latchmail domain free` releases a reserved address",
        "bob@second.test: the passwords of second.test are not at the mail server (`sign_in.source` or `sign_in.domains`)",
        "bob@elsewhere.test: elsewhere.test is not a platform domain",
        "a b: is not an address",
    ];
    let output = run(&service, "account adopt FILE", file).await;
    let summary = "1 imported, 2 unchanged, 6 not imported";
    prints(&output, &[&failures[..], &[summary]].concat());
    let output = run(&service, "account adopt FILE", file).await;
    let summary = "0 imported, 3 unchanged, 6 not imported";
    prints(&output, &[&failures[..], &[summary]].concat());

    let config = service.state.join("mail/dovecot/dovecot.conf");
    let verb = format!(
        "account adopt --all --json --dovecot-config {}",
        config.display()
    );
    let output = run_with(&service, &verb, "", &[("PATH", PROGRAMS)]).await;
    let mut adopted: Vec<(String, String)> = objects(&output)
        .iter()
        .map(|object| {
            let text = |key: &str| object[key].as_str().unwrap().to_owned();
            (text("entry"), text("status"))
        })
        .collect();
    adopted.sort();
    let expected = [
        ("alice", "unchanged"),
        ("bob", "unchanged"),
        ("carol", "imported"),
        ("taken", "failed"),
    ];
    assert_eq!(
        adopted,
        expected.map(|(entry, status)| (entry.to_owned(), status.to_owned()))
    );
    for name in ["bob", "carol"] {
        sign_in(&service, name).await.succeeds(200);
    }
    let record = audit(&service).await;
    for event in [
        "account_created  bob@first.test  by operator",
        "account_created  carol@first.test  by operator",
    ] {
        assert!(record.contains(event), "{event}: {record}");
    }
    let rows = service.dump().await;
    assert!(!rows.concat().contains("Secret-1"));
    let verb = "account adopt --all --dovecot-config /nonexistent";
    run_with(&service, verb, "", &[("PATH", PROGRAMS)])
        .await
        .fails_mentioning("Dovecot cannot list its users");
}

#[tokio::test]
async fn platform_domains_are_imported() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let claim = json!({ "domain": "ada.example" });
    ada.post("/api/v1/domains", &claim).await.succeeds(201);
    let verified = service
        .operator("domain verify ada.example --unchecked", "")
        .await;
    verified.succeeds();
    let table = "# domains\none.example OK\nTwo.example.\nfirst.test\nada.example x\nco.uk\na@one.example x\n";
    let failures = [
        "ada.example: belongs to ada@first.test, who verified it",
        "co.uk: is not a domain (line 6)",
        "a@one.example: is not a domain (line 7)",
    ];
    let output = run(&service, "domain import FILE", table).await;
    let summary = "2 imported, 1 unchanged, 3 not imported";
    prints(&output, &[&failures[..], &[summary]].concat());
    let output = run(&service, "domain import FILE --json", table).await;
    let statuses: Vec<Value> = objects(&output)
        .iter()
        .map(|object| object["status"].clone())
        .collect();
    assert_eq!(
        statuses,
        [
            "unchanged",
            "unchanged",
            "unchanged",
            "failed",
            "failed",
            "failed"
        ]
    );
    let listed = service.operator("domain list", "").await.succeeds();
    assert!(listed.contains("two.example  platform, added"), "{listed}");
    let output = service.operator("domain import -", "three.example\n").await;
    prints(&output, &["1 imported, 0 unchanged, 0 not imported"]);
    run(&service, "domain import /nonexistent", "")
        .await
        .fails_mentioning("cannot read /nonexistent");
}
