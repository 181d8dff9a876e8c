package main
import ("context";"fmt";"log/slog";"os"
"github.com/plumbline/plumbline/fixtures/image"
"github.com/plumbline/plumbline/fixtures/kind"
"github.com/plumbline/plumbline/fixtures/nodeimage")
func main(){ ctx:=context.Background(); log:=slog.New(slog.NewTextHandler(os.Stderr,&slog.HandlerOptions{Level:slog.LevelDebug}))
e,err:=image.NewEngine(ctx,os.Stderr,log); if err!=nil{panic(err)}
b:=&nodeimage.Builder{Engine:e,Root:"/work/main",CacheDir:"/root/.cache/plumbline",Kubernetes:"v1.36.3",Suite:"bookworm",Log:log}
ref,err:=b.Build(ctx); fmt.Println(ref,err)
f,err:=kind.New(e,log); if err!=nil{panic(err)}
cfg:=kind.Config{Name:"plumbline",Workers:2,IPFamily:"ipv4",NodeImage:ref,Dir:"/run/plumbline"}
if len(os.Args)>1 && os.Args[1]=="down" { fmt.Println(f.Down(ctx,cfg)); return }
c,err:=f.Up(ctx,cfg); fmt.Println(err); if err==nil { fmt.Println(c.Nodes(ctx)) } }
