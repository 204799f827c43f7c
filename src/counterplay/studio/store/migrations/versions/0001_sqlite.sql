CREATE TABLE audit_log (
  id INTEGER NOT NULL,
  at VARCHAR(40) NOT NULL,
  actor TEXT NOT NULL,
  action VARCHAR(100) NOT NULL,
  object TEXT NOT NULL,
  address_hash VARCHAR(64),
  detail TEXT NOT NULL,
  PRIMARY KEY (id)
)

CREATE TABLE job (
  id INTEGER NOT NULL,
  kind VARCHAR(40) NOT NULL,
  args TEXT NOT NULL,
  state VARCHAR(10) NOT NULL,
  worker VARCHAR(80),
  lease FLOAT,
  beat INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  progress TEXT,
  result TEXT,
  error TEXT,
  created_at VARCHAR(40) NOT NULL,
  done_at VARCHAR(40),
  PRIMARY KEY (id)
)

CREATE INDEX job_state_lease ON job (state, lease)

CREATE TABLE setting (
  "key" VARCHAR(80) NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY ("key")
)

CREATE TABLE study (
  id INTEGER NOT NULL,
  public_id VARCHAR(40) NOT NULL,
  kind VARCHAR(20) NOT NULL,
  name TEXT NOT NULL,
  state VARCHAR(10) NOT NULL,
  version INTEGER NOT NULL,
  config_hash VARCHAR(64) NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  closed_at VARCHAR(40),
  fold_version INTEGER NOT NULL,
  library_version VARCHAR(40) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (public_id)
)

CREATE TABLE admin (
  id INTEGER NOT NULL,
  name VARCHAR(200) NOT NULL,
  password TEXT,
  role VARCHAR(20) NOT NULL,
  study INTEGER,
  created_at VARCHAR(40) NOT NULL,
  disabled_at VARCHAR(40),
  PRIMARY KEY (id),
  UNIQUE (name),
  FOREIGN KEY(study) REFERENCES study (id)
)

CREATE INDEX ix_admin_study ON admin (study)

CREATE TABLE api_token (
  id INTEGER NOT NULL,
  study INTEGER NOT NULL,
  digest BLOB NOT NULL,
  scopes VARCHAR(100) NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  expires_at VARCHAR(40),
  revoked_at VARCHAR(40),
  last_used_at VARCHAR(40),
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  UNIQUE (digest)
)

CREATE INDEX ix_api_token_study ON api_token (study)

CREATE TABLE artifact (
  id INTEGER NOT NULL,
  study INTEGER,
  job INTEGER,
  name TEXT NOT NULL,
  media_type VARCHAR(100) NOT NULL,
  sha256 VARCHAR(64) NOT NULL,
  bytes INTEGER NOT NULL,
  path TEXT NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  FOREIGN KEY(job) REFERENCES job (id)
)

CREATE INDEX ix_artifact_job ON artifact (job)

CREATE INDEX ix_artifact_study ON artifact (study)

CREATE TABLE party (
  id INTEGER NOT NULL,
  study INTEGER NOT NULL,
  public_id VARCHAR(40) NOT NULL,
  role VARCHAR(20) NOT NULL,
  label TEXT NOT NULL,
  locale VARCHAR(20),
  created_at VARCHAR(40) NOT NULL,
  erased_at VARCHAR(40),
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  UNIQUE (public_id)
)

CREATE INDEX ix_party_study ON party (study)

CREATE TABLE study_version (
  id INTEGER NOT NULL,
  study INTEGER NOT NULL,
  version INTEGER NOT NULL,
  config TEXT NOT NULL,
  config_hash VARCHAR(64) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (study, version),
  FOREIGN KEY(study) REFERENCES study (id)
)

CREATE INDEX ix_study_version_study ON study_version (study)

CREATE TABLE link (
  id INTEGER NOT NULL,
  study INTEGER NOT NULL,
  party INTEGER,
  digest BLOB NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  expires_at VARCHAR(40),
  revoked_at VARCHAR(40),
  first_used_at VARCHAR(40),
  cap INTEGER,
  used INTEGER NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  FOREIGN KEY(party) REFERENCES party (id),
  UNIQUE (digest)
)

CREATE INDEX ix_link_party ON link (party)

CREATE INDEX ix_link_study ON link (study)

CREATE TABLE stream (
  id VARCHAR(80) NOT NULL,
  study INTEGER NOT NULL,
  party INTEGER,
  version INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash VARCHAR(64) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  FOREIGN KEY(party) REFERENCES party (id)
)

CREATE INDEX ix_stream_party ON stream (party)

CREATE INDEX ix_stream_study ON stream (study)

CREATE TABLE event (
  id INTEGER NOT NULL,
  stream VARCHAR(80) NOT NULL,
  seq INTEGER NOT NULL,
  kind VARCHAR(200) NOT NULL,
  body TEXT,
  salt VARCHAR(32),
  body_hash VARCHAR(64) NOT NULL,
  "key" VARCHAR(200) NOT NULL,
  actor TEXT NOT NULL,
  at VARCHAR(40) NOT NULL,
  hash VARCHAR(64) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (stream, seq),
  UNIQUE (stream, "key"),
  FOREIGN KEY(stream) REFERENCES stream (id)
)

CREATE TABLE session (
  id INTEGER NOT NULL,
  digest BLOB NOT NULL,
  role VARCHAR(20) NOT NULL,
  party INTEGER,
  admin INTEGER,
  link INTEGER,
  created_at VARCHAR(40) NOT NULL,
  expires_at VARCHAR(40) NOT NULL,
  last_used_at VARCHAR(40) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (digest),
  FOREIGN KEY(party) REFERENCES party (id),
  FOREIGN KEY(admin) REFERENCES admin (id),
  FOREIGN KEY(link) REFERENCES link (id)
)

CREATE INDEX ix_session_admin ON session (admin)

CREATE INDEX ix_session_link ON session (link)

CREATE INDEX ix_session_party ON session (party)

CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events cannot be deleted'); END

CREATE TRIGGER event_unchanged BEFORE UPDATE ON event
WHEN NEW.body IS NOT NULL OR NEW.salt IS NOT NULL
  OR NEW.id IS NOT OLD.id OR NEW.stream IS NOT OLD.stream OR NEW.seq IS NOT OLD.seq
  OR NEW.kind IS NOT OLD.kind OR NEW.body_hash IS NOT OLD.body_hash OR NEW.key IS NOT OLD.key
  OR NEW.actor IS NOT OLD.actor OR NEW.at IS NOT OLD.at OR NEW.hash IS NOT OLD.hash
BEGIN SELECT RAISE(ABORT, 'events cannot be changed, only their content erased'); END

CREATE TRIGGER audit_log_stays BEFORE DELETE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log cannot be changed'); END

CREATE TRIGGER audit_log_unchanged BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log cannot be changed'); END
