# A release from R: the job runs in a process of its own, and its verdict comes back as JSON.
#
#     Rscript deploy/release.R job.yaml
#
# Needs jsonlite (and arrow to read the release). Exit codes are those of anonpipe.
job <- commandArgs(trailingOnly = TRUE)[1]
anonpipe <- Sys.getenv("ANONPIPE", "anonpipe")
# R sets LD_LIBRARY_PATH to its own libraries, of which Python would take the wrong ones
answer <- suppressWarnings(
  system2(anonpipe, c("run", shQuote(job), "--json"), stdout = TRUE, env = "LD_LIBRARY_PATH=")
)
status <- attr(answer, "status")
code <- if (is.null(status)) 0L else status
if (!code %in% c(0L, 3L)) quit(status = code)  # the reason was printed

outcome <- jsonlite::fromJSON(paste(answer, collapse = "\n"))
if (code == 3L) {
  failed <- outcome$checks[outcome$checks$outcome == "failed", c("name", "measured", "limit")]
  print(failed)
  message(paste(outcome$remedies, collapse = "\n"))
  quit(status = 3L)
}
cat("released", outcome$rows, "rows:", outcome$version, "\n")
# released <- arrow::open_dataset(outcome$version)
